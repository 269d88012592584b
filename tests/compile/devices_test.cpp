// Captures from types alone, and for a device that is not there. On a machine that has the device the tests of the
// Python package run there: `make test-gpu`.
#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "diptych/compile/aot.h"
#include "diptych/pair/pair.h"
#include "diptych/pair/spec.h"
#include "testing/expect_error.h"

namespace diptych {
namespace {

const c10::Device kCuda(c10::kCUDA, 0);

at::Tensor on_cuda(std::vector<int64_t> sizes, bool requires_grad = true, at::ScalarType dtype = at::kFloat) {
  return spec(sizes, dtype, kCuda).set_requires_grad(requires_grad);
}

// Every value of a graph that is no number of the host lies on cuda:0.
void expect_on_cuda(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    for (const Value output : node.outputs) {
      if (output) EXPECT_EQ(graph.meta(output).device, kCuda) << node.op.name() << "\n" << graph.code();
    }
  }
}

template <class F, class... Args>
void expect_captured(const F& f, const Args&... args) {
  const auto pair = capture(f, args...);
  expect_on_cuda(pair.forward);
  expect_on_cuda(pair.backward);
  size_t gradients = 0;
  for (const Value output : pair.backward.outputs()) gradients += static_cast<bool>(output);
  size_t leaves = 0;
  ((leaves += args.requires_grad()), ...);
  EXPECT_EQ(gradients, leaves) << pair.backward.code();
}

TEST(Devices, ABlockOfATransformer) {
  const auto block = [](const at::Tensor& tokens, const at::Tensor& table, const at::Tensor& qkv, const at::Tensor& out,
                        const at::Tensor& gain, const at::Tensor& shift) {
    const at::Tensor x = at::embedding(table, tokens) + at::arange(16, table.options()).view({16, 1});
    const at::Tensor h = at::layer_norm(x, {32}, gain, shift);
    const auto heads = at::matmul(h, qkv).view({2, 16, 3, 4, 8}).permute({2, 0, 3, 1, 4}).unbind();
    const at::Tensor mixed = at::scaled_dot_product_attention(heads[0], heads[1], heads[2], {}, 0.0, true);
    const at::Tensor y = x + at::matmul(mixed.transpose(1, 2).reshape({2, 16, 32}), out);
    const at::Tensor logits = at::matmul(at::dropout(at::gelu(y), 0.1, true), table.t());
    return at::cross_entropy_loss(logits.view({32, 50}), tokens.view({32}));
  };
  expect_captured(block, on_cuda({2, 16}, false, at::kLong), on_cuda({50, 32}), on_cuda({32, 96}), on_cuda({32, 32}),
                  on_cuda({32}), on_cuda({32}));
}

TEST(Devices, ABlockOfAResidualNetwork) {
  const auto block = [](const at::Tensor& x, const at::Tensor& w, const at::Tensor& gain, const at::Tensor& shift,
                        const at::Tensor& mean, const at::Tensor& variance) {
    const at::Tensor h =
        at::batch_norm(at::conv2d(x, w, {}, 1, 1), gain, shift, mean, variance, true, 0.1, 1e-5, false);
    return at::adaptive_avg_pool2d(at::max_pool2d((h + x).relu_(), 2), {1, 1}).square().mean();
  };
  expect_captured(block, on_cuda({2, 4, 8, 8}), on_cuda({4, 4, 3, 3}), on_cuda({4}), on_cuda({4}), on_cuda({4}, false),
                  on_cuda({4}, false));
}

TEST(Devices, ALoopOfGates) {
  const auto loop = [](const at::Tensor& xs, const at::Tensor& w, const at::Tensor& u) {
    at::Tensor h = at::zeros({4, 8}, w.options()), c = at::zeros_like(h);
    for (const at::Tensor& x : xs.unbind()) {
      const auto gates = (at::matmul(x, w) + at::matmul(h, u)).chunk(4, 1);
      c = gates[0].sigmoid() * c + gates[1].sigmoid() * gates[2].tanh();
      h = gates[3].sigmoid() * c.tanh();
    }
    return h.sum();
  };
  expect_captured(loop, on_cuda({5, 4, 6}), on_cuda({6, 32}), on_cuda({8, 32}));
}

TEST(Devices, ANumberOnTheHostBesideThem) {
  expect_captured([](const at::Tensor& x, const at::Tensor& s) { return (x * s).sum(); }, on_cuda({4, 3}),
                  at::scalar_tensor(2.0));
}

at::Tensor two_layers(const at::Tensor& x, const at::Tensor& w) {
  return at::matmul(at::matmul(x, w).relu(), w.t()).sum();
}

// A capture by specs is the capture by tensors of their types, and runs on tensors.
TEST(Devices, TwoDevicesAreRefusedAsInEager) {
  const std::string words =
      "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and ";
  const at::Tensor x = on_cuda({4, 3});
  testing::expect_error<c10::Error>([&] { capture([](auto& a, auto& b) { return (a + b).sum(); }, x, at::ones({3})); },
                                    words + "cpu!");
  testing::expect_error<c10::Error>(
      [&] {
        capture([](auto& a, auto& b) { return at::matmul(a, b).sum(); }, x, spec({3, 2}, at::kFloat, {at::kCUDA, 1}));
      },
      words + "cuda:1!");
  testing::expect_error<c10::Error>(
      [&] {
        capture([](auto& a, auto& b) { return at::cat({a, b}).sum(); }, x, at::ones({4, 3}));
      },
      words + "cpu!");
}

// As in eager indices may lie on the host, and copies take from it.
TEST(Devices, WhatTakesSeveralDevices) {
  const auto mixed = [](const at::Tensor& x, const at::Tensor& index, const at::Tensor& y) {
    at::Tensor taken = x.index({index}) * 2;
    taken.copy_(y);
    taken.select(0, 1).add_(y.to(x.device()).select(0, 0));
    return (taken + y.to(x.options())).sum();
  };
  const Pair pair = capture(mixed, on_cuda({4, 3}), at::tensor({0, 2}), at::ones({2, 3}));
  EXPECT_EQ(pair.forward.meta(pair.forward.outputs()[0]).device, kCuda);
}

TEST(Devices, SpecsGiveTheGraphsOfTensors) {
  const at::Tensor x = at::randn({4, 3}), w = at::randn({3, 5}).set_requires_grad(true);
  const Pair of_tensors = capture(two_layers, x, w);
  const Pair of_specs = capture(two_layers, spec({4, 3}), spec({3, 5}).set_requires_grad(true));
  EXPECT_EQ(of_specs.code(), of_tensors.code());
  EXPECT_TRUE(of_specs.forward_call({x, w}).outputs[0].equal(two_layers(x, w)));
  const Pair transposed = capture(two_layers, spec_like(at::randn({3, 4}).t(), at::kCPU), spec_like(w, at::kCPU));
  EXPECT_EQ(transposed.code(), capture(two_layers, at::randn({3, 4}).t(), w).code());
}

TEST(Devices, MetaTensorsAreSpecs) {
  const at::Tensor w = at::empty({3, 5}, at::device(at::kMeta)).set_requires_grad(true);
  EXPECT_EQ(capture(two_layers, spec({4, 3}), spec_like(w, at::kCPU)).code(),
            capture(two_layers, at::randn({4, 3}), at::randn({3, 5}).set_requires_grad(true)).code());
}

TEST(Devices, ViewsOfASpecShareMemory) {
  const auto writes = [](const at::Tensor& x, const at::Tensor& row) { return row.mul_(2), x.sum(); };
  const at::Tensor x = at::ones({4, 3}), of_type = spec({4, 3});
  EXPECT_EQ(capture(writes, of_type, of_type[1]).code(), capture(writes, x, x[1]).code());
}

TEST(Devices, NothingRunsOnASpec) {
  const std::string words = "a spec has no elements";
  const at::Tensor x = spec({4, 3});
  testing::expect_error<c10::Error>([&] { x + 1; }, {words});
  testing::expect_error<c10::Error>([&] { x.data_ptr(); }, {words});
  testing::expect_error<std::exception>([&] { aot_function([](const at::Tensor& t) { return t * 2; })(x); }, {words});
  const Pair pair = capture([&](const at::Tensor& t) { return t * x; }, at::ones({4, 3}));
  testing::expect_error<std::exception>([&] { pair.forward_call({at::ones({4, 3})}); }, {words});
}

TEST(Devices, BadSpecsAreRefused) {
  testing::expect_error<UserError>([] { spec({4, -1}); }, {"[spec] got the sizes [4, -1]"});
  testing::expect_error<UserError>([] { spec({4}, at::kQInt8); }, "QInt8");
  testing::expect_error<UserError>([] { spec_like(at::Tensor(), at::kCPU); }, {"[spec_like] got an undefined tensor"});
}

}  // namespace
}  // namespace diptych
