#include "diptych/trace/generator_watch.h"

#include <ATen/CPUGeneratorImpl.h>

#include <map>
#include <mutex>

#include "diptych/base/error.h"

namespace diptych::detail {
namespace {

constexpr uint64_t kMark = 0x6469707479636821;

// Exchanges the number that the generator reports as its seed; what it draws depends on its state alone.
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

// How often a graph's nodes hold each generator, and one node that does.
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

GeneratorWatch::GeneratorWatch() : seed_(exchange_seed(kMark)) {}

GeneratorWatch::~GeneratorWatch() {
  if (current_seed() == kMark) exchange_seed(seed_);
}

void GeneratorWatch::check(const Graph& graph) const {
  DIPTYCH_CHECK(current_seed() == kMark,
                "[capture] the function seeds the default generator or sets its state, which a graph can't do; call "
                "manual_seed before the function");
  for (const auto& [impl, holder] : holders(graph)) {
    const auto generator = c10::intrusive_ptr<c10::GeneratorImpl>::reclaim_copy(const_cast<c10::GeneratorImpl*>(impl));
    DIPTYCH_CHECK(generator.use_count() > holder.count + 1,
                  "[capture] {} in scope '{}' draws from a generator that the function makes, which would go on in the "
                  "next call where the function makes a new one; make it outside and pass it",
                  holder.node->op.name(), holder.node->provenance.scope.str());
  }
}

}  // namespace diptych::detail
