#include "diptych/hops/scan/scan_layers.h"
#include <torch/nn.h>
#include "diptych/pair/module.h"
#include "hops/unrolled.h"

namespace diptych::testing {
namespace {

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(int64_t width, double dropout = 0)
      : linear(register_module("linear", torch::nn::Linear(width, width))),
        norm(register_module("norm", torch::nn::BatchNorm1d(width))),
        drop(register_module("drop", torch::nn::Dropout(dropout))) {}
  at::Tensor forward(const at::Tensor& x) { return x + drop(torch::tanh(norm(linear(x)))); }
  torch::nn::Linear linear;
  torch::nn::BatchNorm1d norm;
  torch::nn::Dropout drop;
};
TORCH_MODULE(Block);

std::vector<Block> make_blocks(size_t count, int64_t width = 4, double dropout = 0) {
  torch::manual_seed(3);
  std::vector<Block> blocks;
  for (size_t i = 0; i < count; ++i) {
    blocks.emplace_back(width, dropout);
    blocks.back()->to(torch::kFloat64);
  }
  return blocks;
}

at::Tensor in_a_row(const std::vector<Block>& blocks, at::Tensor x) {
  for (auto block : blocks) x = block(x);
  return x;
}

void expect_same_state(const std::vector<Block>& ours, const std::vector<Block>& theirs) {
  for (size_t i = 0; i < ours.size(); ++i) {
    for (const auto& named : theirs[i]->named_parameters()) {
      const at::Tensor got = ours[i]->named_parameters()[named.key()].grad();
      ASSERT_TRUE(got.defined()) << i << named.key();
      EXPECT_TRUE(torch::allclose(got, named.value().grad(), 1e-10, 1e-12)) << i << " " << named.key();
    }
    for (const auto& named : theirs[i]->named_buffers()) {
      EXPECT_TRUE(torch::allclose(ours[i]->named_buffers()[named.key()], named.value())) << i << " " << named.key();
    }
  }
}

TEST(ScanLayers, IsTheLayersInARow) {
  for (const size_t count : {1, 2, 5}) {
    for (const bool compiled : {false, true}) {
      const auto ours = make_blocks(count, 4, 0.3), theirs = make_blocks(count, 4, 0.3);
      const at::Tensor x = values({6, 4}).to(torch::kFloat64);
      const at::Tensor a = x.clone().requires_grad_(), b = x.clone().requires_grad_();
      const auto layered = [&](const at::Tensor& t) { return scan_layers(ours, t); };
      torch::manual_seed(5);
      const at::Tensor y = compiled ? aot_function(layered)(a) : layered(a);
      torch::manual_seed(5);
      const at::Tensor z = in_a_row(theirs, b);
      EXPECT_TRUE(torch::allclose(y, z, 1e-12, 1e-12));
      y.square().sum().backward();
      z.square().sum().backward();
      EXPECT_TRUE(torch::allclose(a.grad(), b.grad(), 1e-10, 1e-12));
      expect_same_state(ours, theirs);
    }
  }
}

TEST(ScanLayers, InEvaluationModeNothingChanges) {
  const auto ours = make_blocks(3);
  for (auto block : ours) block->eval();
  const at::Tensor x = values({6, 4}).to(torch::kFloat64);
  const at::Tensor before = ours[1]->norm->running_mean.clone();
  EXPECT_TRUE(torch::allclose(scan_layers(ours, x), in_a_row(ours, x)));
  EXPECT_TRUE(torch::equal(ours[1]->norm->running_mean, before));
  EXPECT_TRUE(scan_layers(std::vector<Block>(), x).is_same(x));
}

TEST(ScanLayers, RefusesUnequalLayersByName) {
  const at::Tensor x = values({6, 4}).to(torch::kFloat64);
  auto blocks = make_blocks(3);
  blocks[2] = make_blocks(1, 5)[0];
  expect_error<UserError>([&] { scan_layers(blocks, x); }, "'layer.linear.weight' of layer 2 is f64[5,5]");
  blocks = make_blocks(3);
  blocks[1]->eval();
  expect_error<UserError>([&] { scan_layers(blocks, x); }, "layer 1 has other submodules");
  blocks = make_blocks(2);
  blocks[1]->linear->weight.set_requires_grad(false);
  expect_error<UserError>([&] { scan_layers(blocks, x); }, "layer 1 is f64[4,4], of layer 0 f64[4,4] grad");
  const std::vector<torch::nn::Sequential> stacks{torch::nn::Sequential(torch::nn::Linear(4, 4), torch::nn::Tanh()),
                                                  torch::nn::Sequential(torch::nn::Linear(4, 4), torch::nn::Sigmoid())};
  expect_error<UserError>([&] { scan_layers(stacks, torch::ones({2, 4})); }, "layer 1 has other submodules");
}

}  // namespace
}  // namespace diptych::testing
