#include "diptych/trace/generator_watch.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/equal.h>

#include <map>
#include <mutex>
#include <utility>

#include "diptych/base/check.h"
#include "diptych/trace/location.h"

namespace diptych::detail {
namespace {

// Exchanges the number that the generator reports as its seed. Draws depend on its state alone, and do not change.
uint64_t exchange_seed(uint64_t seed) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  auto* impl = at::check_generator<at::CPUGeneratorImpl>(generator);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  at::mt19937 engine = impl->engine();
  at::mt19937_data_pod data = engine.data();
  const uint64_t before = std::exchange(data.seed_, seed);
  engine.set_data(data);
  impl->set_engine(engine);
  return before;
}

uint64_t current_seed() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.current_seed();
}

at::Tensor default_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

// There is one default generator, and traces run in several threads and inside each other.
struct Watches {
  std::mutex mutex;
  int num_open = 0;
  bool was_seeded = false;  // since the first open watch began
  uint64_t seed = 0;        // the generator's own
  uint64_t mark = 0x6469707479636800;
};
Watches watches;
thread_local int num_open_here = 0;

void check_mark() {
  const std::lock_guard<std::mutex> lock(watches.mutex);
  DIPTYCH_CHECK(!watches.was_seeded && current_seed() == watches.mark,
                "[capture] the function seeds the default generator or sets its state, as torch.utils.checkpoint does, "
                "which a graph can't do; call manual_seed before the function, or use Diptych's checkpoint()");
}

// How many operands of a graph are one generator, and a node that has it.
struct Holder {
  const Node* node;
  size_t count = 0;
};

std::map<const c10::GeneratorImpl*, Holder> holders(const Graph& graph) {
  std::map<const c10::GeneratorImpl*, Holder> found;
  for (const Node& node : graph.nodes()) {
    for (const Operand& operand : node.operands) {
      const auto* constant = std::get_if<c10::IValue>(&operand);
      if (constant == nullptr || !constant->isGenerator()) continue;
      const at::Generator generator = constant->toGenerator();
      ++found.try_emplace(generator.unsafeGetGeneratorImpl(), Holder{&node}).first->second.count;
    }
  }
  return found;
}

}  // namespace

GeneratorWatch::GeneratorWatch() {
  ++num_open_here;
  const std::lock_guard<std::mutex> lock(watches.mutex);
  const uint64_t before = exchange_seed(++watches.mark);
  if (watches.num_open++ == 0) {
    watches.seed = before;
    watches.was_seeded = false;
  } else {
    watches.was_seeded = watches.was_seeded || before != watches.mark - 1;
  }
}

GeneratorWatch::~GeneratorWatch() {
  --num_open_here;
  const std::lock_guard<std::mutex> lock(watches.mutex);
  if (--watches.num_open == 0 && current_seed() == watches.mark) exchange_seed(watches.seed);
}

void GeneratorWatch::check_draw() {
  if (num_open_here == 0) return;
  check_mark();
  const std::lock_guard<std::mutex> lock(watches.mutex);
  exchange_seed(++watches.mark);
}

void GeneratorWatch::check_untouched() { check_mark(); }

void GeneratorWatch::check(const Graph& graph) {
  check_mark();
  for (const auto& [impl, holder] : holders(graph)) {
    const auto generator = c10::intrusive_ptr<c10::GeneratorImpl>::reclaim_copy(const_cast<c10::GeneratorImpl*>(impl));
    DIPTYCH_CHECK(generator.use_count() > holder.count + 1,
                  "[capture] {} draws from a generator that the function makes anew at each call, while a graph would "
                  "continue the first one; make it outside and pass it",
                  with_scope(holder.node->op.name(), holder.node->provenance.scope));
  }
}

void set_state_unseen(at::Generator& generator, const at::Tensor& state) {
  const std::lock_guard<std::mutex> lock(watches.mutex);
  const bool is_watched = generator == at::detail::getDefaultCPUGenerator();
  const uint64_t reported = is_watched ? current_seed() : 0;
  {
    const std::lock_guard<std::mutex> generator_lock(generator.mutex());
    generator.set_state(state);
  }
  if (is_watched) exchange_seed(reported);
}

KeepDefaultGenerator::KeepDefaultGenerator() : state_(default_state()) {}

KeepDefaultGenerator::~KeepDefaultGenerator() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  set_state_unseen(generator, state_);
}

bool KeepDefaultGenerator::has_drawn() const { return !at::equal(default_state(), state_); }

}  // namespace diptych::detail
