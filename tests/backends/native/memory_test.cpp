// Memory of results: the arena, the pool, and the plan beside what the pool counts.
#include <torch/types.h>

#include <cstring>
#include <random>
#include <vector>

#include "diptych/compile/aot.h"
#include "diptych/interpreter/program.h"
#include "diptych/native/memory/arena.h"
#include "diptych/native/memory/result_pool.h"
#include "diptych/native/native_backend.h"
#include "diptych/native/report/memory_plan.h"
#include "interpreter/graph_builder.h"
#include "testing/eager_check.h"
#include "testing/rotation.h"

namespace diptych {

using namespace detail;
namespace {

using test::GraphBuilder;
using testing::Tensors;

// Blocks of random sizes that come and go: each is written to, and read when it goes.
TEST(Arena, KeepsBlocksApartAndStaysDense) {
  std::mt19937 random(3);
  struct Block {
    unsigned char* memory;
    size_t size;
    unsigned char mark;
  };
  Arena arena;
  std::vector<Block> blocks;
  size_t live = 0, most = 0;
  for (int step = 0; step < 4000; ++step) {
    if (blocks.size() > 30 || (!blocks.empty() && random() % 2 == 0)) {
      const size_t i = random() % blocks.size();
      for (const size_t at : {size_t{0}, blocks[i].size / 2, blocks[i].size - 1}) {
        ASSERT_EQ(blocks[i].memory[at], blocks[i].mark);
      }
      arena.give(blocks[i].memory, blocks[i].size);
      live -= blocks[i].size;
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(i));
      if (random() % 50 == 0) arena.trim(live);
      continue;
    }
    const size_t size = (1 + random() % 20'000) * Arena::kGrain;
    auto* const memory = static_cast<unsigned char*>(arena.take(size));
    ASSERT_NE(memory, nullptr);
    EXPECT_TRUE(arena.holds(memory) && arena.holds(memory + size - 1));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % Arena::kGrain, 0U);
    blocks.push_back({memory, size, static_cast<unsigned char>(random())});
    std::memset(memory, blocks.back().mark, size);
    live += size;
    most = std::max(most, live);
    EXPECT_GE(arena.reached(), live);
  }
  EXPECT_LE(arena.reached(), most / 4 * 5 + 2 * Arena::kPage);
  for (const Block& block : blocks) arena.give(block.memory, block.size);
  const size_t reached = arena.reached();
  auto* const whole = static_cast<unsigned char*>(arena.take(most));
  EXPECT_LE(arena.reached(), std::max(reached, most + Arena::kPage));
  arena.give(whole, most);
  arena.trim(0);
  EXPECT_EQ(arena.reached(), 0U);
  EXPECT_EQ(arena.take(size_t{1} << 60U), nullptr);
}

TEST(ResultPool, HandsOutBlocksAgain) {
  release_result_pool();
  for (const int64_t rows : {100, 1000}) {  // small, and the arena's
    const int64_t live = result_pool_use().live;
    const void* memory = nullptr;
    {
      const auto a = new_result({rows, 100}, {100, 1}, at::kFloat);
      memory = a.data_ptr();
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0U);
      EXPECT_GE(result_pool_use().live - live, rows * 400);
      EXPECT_LE(result_pool_use().live - live, rows * 450);
      EXPECT_EQ(result_pool_use().live - live, result_block_size(rows * 400));
      EXPECT_EQ(a.strides(), (at::IntArrayRef{100, 1}));
    }
    EXPECT_GE(result_pool_use().kept, rows * 400);
    EXPECT_EQ(new_result({rows - 1, 100}, {1, rows - 1}, at::kFloat).data_ptr(), memory);
  }
  for (int64_t size = 10'000; size < 4'000'000; size += size / 3) new_result({size}, {1}, at::kFloat);
  const auto use = result_pool_use();
  EXPECT_LE(use.live + use.kept, use.high_water / 4 * 5 + 2 * static_cast<int64_t>(Arena::kPage));
  release_result_pool();
  EXPECT_EQ(new_result({0, 3}, {3, 1}, at::kLong).numel(), 0);
}

// Runs a graph and returns by how much the pool's live bytes rose at most.
int64_t counted_peak(const Executable& executable, Tensors inputs, Tensors* outputs = nullptr) {
  release_result_pool();  // the mark starts from what is live
  const int64_t before = result_pool_use().high_water;
  Tensors results = executable.run(std::move(inputs));
  const int64_t peak = result_pool_use().high_water - before;
  if (outputs != nullptr) *outputs = std::move(results);
  return peak;
}

// Products of every kind give what eager gives, with its strides, in memory of the pool.
TEST(ResultPool, HoldsProducts) {
  torch::manual_seed(0);
  GraphBuilder builder;
  const Value a = builder.input(torch::randn({40, 50})), b = builder.input(torch::randn({60, 50}));
  const Value bias = builder.input(torch::randn({60})), c = builder.input(torch::randn({4, 40, 50}));
  const Value bt = builder.node("aten.t", {b});
  const Value mm = builder.node("aten.mm", {a, bt});
  const Value addmm = builder.node("aten.addmm", {bias, a, bt});
  const Value ct = builder.node("aten.transpose.int", {c, c10::IValue(1), c10::IValue(2)});
  const Value bmm = builder.node("aten.bmm", {c, ct});
  const Value baddbmm = builder.node("aten.baddbmm", {bmm, c, ct});
  const Graph graph = builder.finish({mm, addmm, bmm, baddbmm});
  const auto executable = NativeBackend().compile(graph);
  Tensors inputs, outputs;
  for (const Value value : {a, b, bias, c}) inputs.push_back(builder.example(value));
  EXPECT_EQ(counted_peak(*executable, inputs, &outputs), plan_memory(fused_graph(*executable)).peak);
  size_t i = 0;
  for (const Value value : {mm, addmm, bmm, baddbmm}) {
    EXPECT_TRUE(at::equal(outputs[i], builder.example(value)));
    EXPECT_EQ(outputs[i].strides(), builder.example(value).strides());
    EXPECT_EQ(outputs[i].storage().allocator(), result_pool());
    ++i;
  }
  // Under autograd, the operators themselves run.
  for (at::Tensor& input : inputs) input.requires_grad_();
  EXPECT_NO_THROW(Program(graph).run(std::move(inputs), {.differentiable = true})[3].sum().backward());
}

int64_t saved_bytes(const Graph& backward) {
  int64_t bytes = 0;
  for (const Value input : backward.inputs()) bytes += backward.meta(input).nbytes();
  return bytes;
}

// A normalization's result and an activation's are computed again from what is before them, with a copy of the bias:
// what is written to it between forward and backward changes nothing.
TEST(NativeBackend, SavesNeitherNormalizedNorActivatedValues) {
  torch::manual_seed(0);
  Tensors leaves{torch::randn({256, 64}), torch::rand({64}), torch::randn({64}), torch::randn({192, 64}) / 8,
                 torch::randn({64, 192}) / 8};
  const auto f = [](const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& up,
                    const at::Tensor& down) {
    const auto h = at::layer_norm(x, {64}, weight, bias);
    return at::linear(at::gelu(at::linear(h, up), "tanh"), down);
  };
  const auto compiled = aot_function(f, AotOptions{.backend = "native"});
  std::vector<Tensors> gradients;
  for (const bool is_ours : {true, false}) {
    Tensors own;
    for (const at::Tensor& leaf : leaves) own.push_back(leaf.clone().requires_grad_());
    const at::Tensor y =
        is_ours ? compiled(own[0], own[1], own[2], own[3], own[4]) : f(own[0], own[1], own[2], own[3], own[4]);
    if (is_ours) {
      const at::NoGradGuard no_grad;
      own[2].add_(1);
    }
    y.square().mean().backward();
    gradients.emplace_back();
    for (const at::Tensor& leaf : own) gradients.back().push_back(leaf.grad());
  }
  EXPECT_TRUE(testing::same_tensors(gradients[0], gradients[1], testing::within(1e-5)));
  // x and its 256 means and deviations; the product before the activation; the weights; a copy of the bias; a tangent.
  const int64_t elements = 256 * 64 + 512 + 256 * 192 + 64 + 2 * 64 * 192 + 64 + 256 * 64;
  EXPECT_LE(saved_bytes(compiled.native_graphs().at(1).graph()), elements * 4);
}

// Chains of products, pointwise nodes, sums, softmaxes and views in random order.
struct RandomGraph {
  explicit RandomGraph(uint32_t seed) {
    std::mt19937 random(seed);
    torch::manual_seed(seed);
    for (int i = 0; i < 4; ++i) values.push_back(builder.input(torch::randn({96, 96})));
    inputs = values;
    const auto any = [&] { return values[random() % values.size()]; };
    for (int i = 0; i < 25; ++i) values.push_back(node(random() % 7, any(), any()));
    for (int i = 0; i < 3; ++i) outputs.push_back(any());
    outputs.push_back(values.back());
  }

  Value node(uint32_t kind, Value x, Value y) {
    if (kind == 0) return builder.node("aten.mm", {x, y});
    if (kind == 1) return builder.node("aten.mul.Tensor", {x, y});
    if (kind == 2) return builder.node("aten.tanh", {x});
    if (kind == 3) return builder.node("aten.t", {x});
    if (kind == 4) return builder.node("aten._softmax", {x, c10::IValue(1), c10::IValue(false)});
    if (kind == 5)
      return builder.node("aten.sub.Tensor", {x, builder.node("aten.mean.dim", {y, c10::List<int64_t>{0}})});
    return builder.node("aten.add.Tensor", {builder.node("aten.select.int", {x, c10::IValue(0), c10::IValue(3)}), y});
  }

  GraphBuilder builder;
  std::vector<Value> values, inputs, outputs;
};

TEST(MemoryPlan, IsWhatThePoolCounts) {
  for (const uint32_t seed : testing::rotating_seeds(0, 60)) {
    RandomGraph random(seed);
    const NativeBackend backend;
    const auto executable = backend.compile(backend.prepare(random.builder.finish(random.outputs)));
    const Graph& fused = fused_graph(*executable);
    Tensors held;
    for (const Value value : random.inputs) held.push_back(random.builder.example(value));
    EXPECT_EQ(counted_peak(*executable, held), plan_memory(fused).peak) << seed << "\n" << fused.code();
    // Inputs that the run alone holds are overwritten, and freed behind their last reader.
    Tensors donated, outputs;
    int64_t live = 0;
    for (const at::Tensor& tensor : held) {
      donated.push_back(new_result(tensor.sizes(), tensor.strides(), at::kFloat).copy_(tensor));
      live += result_block_size(static_cast<int64_t>(tensor.nbytes()));
    }
    const auto plan = plan_memory(fused, std::vector<bool>(held.size(), true));
    EXPECT_EQ(live + counted_peak(*executable, std::move(donated), &outputs), plan.peak) << seed << "\n"
                                                                                         << fused.code();
    Tensors expected;
    for (const Value value : random.outputs) expected.push_back(random.builder.example(value));
    EXPECT_TRUE(testing::same_tensors(outputs, expected, testing::within(2e-4))) << seed;
  }
}

// The stacks of a planned loop are in the pool, and what its steps have while it runs.
TEST(MemoryPlan, CountsLoops) {
  const auto f = [](const Tensors& t) -> Tensors {
    const auto step = [&](const Tensors& c, const Tensors& x) -> std::pair<Tensors, Tensors> {
      const at::Tensor h = torch::tanh(torch::mm(c[0], t[2]) + x[0]);
      return {{h}, {h, h.exp()}};
    };
    const auto [carries, stacks] = scan(step, Tensors{t[0] * 2}, Tensors{t[1].sin()});
    return {carries[0].cos(), stacks[0].sum(0) + stacks[1].mean(0)};
  };
  const Tensors inputs{torch::randn({32, 48}), torch::randn({20, 32, 48}), torch::randn({48, 48})};
  const NativeBackend backend;
  const auto executable = backend.compile(backend.prepare(capture(f, inputs).forward));
  const MemoryPlan plan = plan_memory(fused_graph(*executable));
  EXPECT_GT(plan.peak, int64_t{2} * 20 * 32 * 48 * 4);  // what is scanned, and a stack
  EXPECT_EQ(counted_peak(*executable, inputs), plan.peak);
}

}  // namespace
}  // namespace diptych
