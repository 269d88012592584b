// When tensors are freed, and what may be overwritten. Eager is the oracle for every value.
#include "diptych/interpreter/lifetimes.h"

#include <c10/core/CPUAllocator.h>

#include <atomic>

#include "diptych/interpreter/hop_rules.h"
#include "diptych/interpreter/program.h"
#include "interpreter/graph_builder.h"

namespace diptych {

using namespace detail;
namespace {

using test::GraphBuilder;
using test::same_bits;

// Counts the bytes that CPU tensors hold, through the allocator that all of them use.
class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* base) : base_(base) {}
  c10::DataPtr allocate(size_t bytes) override {
    auto inner = std::make_unique<Block>(Block{base_->allocate(bytes), bytes, this});
    void* data = inner->data.get();
    live_ += static_cast<int64_t>(bytes);
    peak_ = std::max(peak_.load(), live_.load());
    ++count_;
    return {data, inner.release(), &free_block, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* destination, const void* source, size_t count) const override {
    default_copy_data(destination, source, count);
  }
  void reset() { peak_ = live_.load(), start_ = live_.load(), count_ = 0; }
  int64_t peak() const { return peak_ - start_; }
  int64_t count() const { return count_; }

 private:
  struct Block {
    c10::DataPtr data;
    size_t bytes;
    CountingAllocator* owner;
  };
  static void free_block(void* context) {
    auto* block = static_cast<Block*>(context);
    block->owner->live_ -= static_cast<int64_t>(block->bytes);
    delete block;
  }
  c10::Allocator* base_;
  std::atomic<int64_t> live_{0}, peak_{0}, count_{0};
  int64_t start_ = 0;
};

CountingAllocator& counting_allocator() {
  static CountingAllocator* allocator = [] {
    auto* counting = new CountingAllocator(c10::GetCPUAllocator());
    c10::SetCPUAllocator(counting, /*priority=*/100);
    return counting;
  }();
  return *allocator;
}

// A higher-order operator that looks at the tensor it is given, and hands it on.
struct Probe {
  std::vector<c10::weak_intrusive_ptr<at::TensorImpl, c10::UndefinedTensorImpl>> watched;
  std::vector<bool> alive;
  size_t use_count = 0;
};
Probe* current_probe = nullptr;
const HopSchema kProbe("test_probe(Tensor probed)", {});

Value add_probe(GraphBuilder& builder, Value value) {
  register_interpreter_rule(kProbe, [](const Node&) -> HopKernel {
    return [](std::vector<c10::IValue>&& operands, const RunOptions&) {
      auto tensor = std::move(operands.at(0)).toTensor();
      operands.clear();
      current_probe->use_count = tensor.use_count();
      current_probe->alive.clear();
      for (const auto& watched : current_probe->watched) current_probe->alive.push_back(!watched.expired());
      return std::vector<at::Tensor>{tensor.clone()};
    };
  });
  Node node = test::make_node(Op(&kProbe));
  node.operands = {value};
  const auto index = builder.graph().add_node(node, {builder.graph().meta(value)});
  return builder.graph().nodes()[index].outputs[0];
}

TEST(Lifetimes, FreeInputsAtTheirLastUseAndUnusedOnesAtOnce) {
  GraphBuilder builder;
  const Value early = builder.input(torch::randn({4}));
  const Value late = builder.input(torch::randn({4}));
  const Value unused = builder.input(torch::randn({4}));
  (void)unused;
  const Value mm = builder.node("aten.mul.Tensor", {early, late});
  const Value probed = add_probe(builder, mm);
  Probe probe;
  current_probe = &probe;
  // `late` is used after the probe.
  Node node = test::make_node(Op::find("aten.mul.Tensor"));
  node.operands = {probed, late};
  builder.graph().add_node(node, {builder.graph().meta(late)});
  // In place, the first product would live on in `early`.
  const Program program(builder.finish({builder.graph().nodes().back().outputs[0]}), {.reuse_buffers = false});
  std::vector<at::Tensor> inputs{torch::randn({4}), torch::randn({4}), torch::randn({4})};
  for (const auto& input : inputs) probe.watched.emplace_back(input.getIntrusivePtr());
  program.run(std::move(inputs));
  EXPECT_EQ(probe.alive, (std::vector<bool>{false, true, false}));
  for (const auto& watched : probe.watched) EXPECT_TRUE(watched.expired());
}

TEST(Lifetimes, HandADyingValueToItsKernelAlone) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({4}));
  const Program program(builder.finish({add_probe(builder, builder.node("aten.sin", {x}))}));
  Probe probe;
  current_probe = &probe;
  std::vector<at::Tensor> inputs;  // an initializer list would hold the tensor as well, until the call is over
  inputs.push_back(torch::randn({4}));
  program.run(std::move(inputs));
  EXPECT_EQ(probe.use_count, 1U);
}

TEST(Lifetimes, PeakMemoryOfAChainIsTwoValues) {
  auto& allocator = counting_allocator();
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({1024, 4}));
  Value value = x;
  // Softmax is no pointwise operator, so nothing runs in place and two values must live at a time.
  for (int i = 0; i < 12; ++i) value = builder.node("aten._softmax", {value, c10::IValue(1), c10::IValue(false)});
  const Program program(builder.finish({value}));
  std::vector<at::Tensor> inputs{torch::randn({1024, 4})};
  allocator.reset();
  program.run(std::move(inputs));
  // One value is the input's, which was there before and is freed after the first node.
  EXPECT_LE(allocator.peak(), 1024 * 4 * 4);
  EXPECT_LE(program.num_registers(), 2U);
}

TEST(Lifetimes, APointwiseChainAllocatesOnce) {
  auto& allocator = counting_allocator();
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({64}));
  Value value = x;
  for (int i = 0; i < 10; ++i) value = builder.node("aten.sin", {value});
  const Program program(builder.finish({value}));
  const auto kept = torch::randn({64});
  allocator.reset();
  auto results = program.run({kept});
  EXPECT_EQ(allocator.count(), 1);
  std::vector<at::Tensor> given{torch::randn({64})};
  allocator.reset();
  results = program.run(std::move(given));
  EXPECT_EQ(allocator.count(), 0) << "an input that nobody keeps is itself overwritten";
}

TEST(Lifetimes, ReuseRegistersWithoutMixingUpValues) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({3, 3}));
  std::vector<Value> values{x};
  for (int i = 0; i < 30; ++i) {
    values.push_back(builder.node("aten.mm", {values[values.size() - 1], values[values.size() / 2]}));
    values.push_back(builder.node("aten.tanh", {values.back()}));
  }
  const Program program(builder.finish({values[7], values.back()}));
  EXPECT_LT(program.num_registers(), 40U);
  const auto results = program.run({builder.example(x).clone()});
  EXPECT_TRUE(same_bits(results[0], builder.example(values[7])));
  EXPECT_TRUE(same_bits(results[1], builder.example(values.back())));
}

}  // namespace
}  // namespace diptych
