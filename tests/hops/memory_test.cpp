// What loops need at once, against what theory says: fewer bytes would be a wrong theory, more a leak of the passes.
#include <torch/nn.h>
#include "diptych/hops/scan/scan_layers.h"
#include "hops/live_bytes.h"
#include "hops/unrolled.h"

namespace diptych::testing {
namespace {

constexpr int64_t kState = 4 * 32 * sizeof(float);
// What a step and the sums of gradients take, in states.
constexpr int64_t kBeside = 40;

/// h' = tanh(x W + h U): a loss of the last state.
struct Network {
  explicit Network(int64_t length)
      : params{values({32, 32}, 0.2).mul_(0.1).requires_grad_(), values({32, 32}, 0.5).mul_(0.1).requires_grad_(),
               values({4, 32}, 0.1).requires_grad_()},
        xs(values({length, 4, 32})) {}
  Tensors params;
  at::Tensor xs;
};

at::Tensor loss(const Tensors& params, const at::Tensor& xs, const ScanOptions& options) {
  const auto step = [&](const at::Tensor& h, const at::Tensor& x) {
    return std::pair{torch::tanh(x.matmul(params[0]) + h.matmul(params[1])), Tensors{}};
  };
  return scan(step, params[2], xs, options).first.sum();
}

// In states, less the gradients.
double peak_of(int64_t length, const ScanOptions& options, bool captured) {
  const Network network(length);
  const auto f = [&](const Tensors& params) { return loss(params, network.xs, options); };
  const auto compiled = aot_function(f);
  const auto step = [&] {
    const at::Tensor value = captured ? compiled(network.params) : f(network.params);
    torch::autograd::grad({value}, network.params);
  };
  step();  // captures
  int64_t gradients = 0;
  for (const at::Tensor& param : network.params) gradients += static_cast<int64_t>(param.nbytes());
  return static_cast<double>(peak_bytes(step) - gradients) / static_cast<double>(kState);
}

TEST(LoopMemory, APlainScanHoldsTwoStacks) {
  for (const bool captured : {false, true}) EXPECT_NEAR(peak_of(1024, {}, captured), 2 * 1024, 0.05 * 2 * 1024);
}

// The carries that are kept, and what a plain scan of a segment holds; a few small tensors beside.
TEST(LoopMemory, ACheckpointedScanHoldsItsCarriesAndASegment) {
  for (const bool captured : {false, true}) {
    // 256 segments with 16 carries: those found again lie beside the forward's.
    const double few = peak_of(4096, {.max_saved_carries = 16, .segment = 16}, captured);
    EXPECT_LE(few, 16 + 15 + 2 * 16 + kBeside) << captured;
    EXPECT_GE(few, 16 + 2 * 16) << captured;
    const double by_default = peak_of(4096, {.max_saved_carries = 16}, captured);
    EXPECT_LE(by_default, 16 + 2 * 241 + kBeside) << captured;  // 17 segments of 241
    EXPECT_GE(by_default, 16 + 241) << captured;
  }
}

struct WideBlockImpl : torch::nn::Module {
  explicit WideBlockImpl(bool checkpointed)
      : is_checkpointed(checkpointed),
        up(register_module("up", torch::nn::Linear(16, 64))),
        down(register_module("down", torch::nn::Linear(64, 16))) {}
  at::Tensor forward(const at::Tensor& x) {
    const auto compute = [this](const at::Tensor& t) { return t + down(torch::tanh(torch::gelu(up(t)))); };
    return is_checkpointed ? checkpoint(compute)(x) : compute(x);
  }
  bool is_checkpointed;
  torch::nn::Linear up, down;
};
TORCH_MODULE(WideBlock);

int64_t peak_of_layers(int64_t depth, int64_t rows, bool checkpointed) {
  std::vector<WideBlock> blocks;
  for (int64_t i = 0; i < depth; ++i) blocks.emplace_back(checkpointed);
  const at::Tensor x = values({rows, 16}).requires_grad_();
  const auto compiled = aot_function([&](const at::Tensor& t) { return scan_layers(blocks, t).sum(); });
  compiled(x).backward();
  return peak_bytes([&] { compiled(x).backward(); });
}

TEST(LoopMemory, CheckpointedLayersHoldTheirInputsAndOneBlock) {
  constexpr int64_t kRows = 1024, kInput = kRows * 16 * sizeof(float);
  const int64_t parameters = 64 * 16 * 2 * int64_t{sizeof(float)};  // and biases
  // What a block computes again: four tensors four times as wide as its input, and their gradients.
  const int64_t block = 8 * 4 * kInput;
  for (const int64_t depth : {8, 32}) {
    EXPECT_LE(peak_of_layers(depth, kRows, true), (depth + 1) * kInput + 4 * depth * parameters + block) << depth;
    // Its input, and one tensor four times as wide.
    EXPECT_GE(peak_of_layers(depth, kRows, false), depth * 5 * kInput) << depth << ": is everything counted?";
  }
}

}  // namespace
}  // namespace diptych::testing
