// Captures of tensors on a device that is not there: tensors without memory, and a device guard that does nothing. On a
// machine that has the device the tests of the Python package run there: `make test-gpu`.
#include <ATen/Functions.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <atomic>

#include "diptych/pair/pair.h"

namespace diptych {
namespace {

const c10::Device kCuda(c10::kCUDA, 0);

// Autograd's engine counts devices to start its threads, once; all other counts would ask CUDA for streams.
struct Guard final : c10::impl::NoOpDeviceGuardImpl<c10::kCUDA> {
  c10::DeviceIndex deviceCount() const noexcept override { return asked++ == 1 ? 1 : 0; }
  mutable std::atomic<int> asked{0};
};

// A dense tensor on cuda:0 with a storage that has a size and no memory.
at::Tensor on_cuda(std::vector<int64_t> sizes, bool requires_grad = true, at::ScalarType dtype = at::kFloat) {
  const size_t bytes = static_cast<size_t>(c10::multiply_integers(sizes)) * c10::elementSize(dtype);
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, c10::DataPtr(nullptr, kCuda), nullptr, false);
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CUDA), c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return tensor.set_requires_grad(requires_grad);
}

class Devices : public ::testing::Test {
 protected:
  void SetUp() override {
    if (c10::impl::hasDeviceGuardImpl(c10::kCUDA) && registered_ == nullptr) GTEST_SKIP() << "CUDA is there";
    if (registered_ == nullptr) {
      static Guard guard;
      static const c10::impl::DeviceGuardImplRegistrar registrar(c10::kCUDA, &guard);
      registered_ = &guard;
    }
  }
  inline static Guard* registered_ = nullptr;
};

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

TEST_F(Devices, ABlockOfATransformer) {
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

TEST_F(Devices, ABlockOfAResidualNetwork) {
  const auto block = [](const at::Tensor& x, const at::Tensor& w, const at::Tensor& gain, const at::Tensor& shift,
                        const at::Tensor& mean, const at::Tensor& variance) {
    const at::Tensor h =
        at::batch_norm(at::conv2d(x, w, {}, 1, 1), gain, shift, mean, variance, true, 0.1, 1e-5, false);
    return at::adaptive_avg_pool2d(at::max_pool2d((h + x).relu_(), 2), {1, 1}).square().mean();
  };
  expect_captured(block, on_cuda({2, 4, 8, 8}), on_cuda({4, 4, 3, 3}), on_cuda({4}), on_cuda({4}), on_cuda({4}, false),
                  on_cuda({4}, false));
}

TEST_F(Devices, ALoopOfGates) {
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

TEST_F(Devices, ANumberOnTheHostBesideThem) {
  expect_captured([](const at::Tensor& x, const at::Tensor& s) { return (x * s).sum(); }, on_cuda({4, 3}),
                  at::scalar_tensor(2.0));
}

}  // namespace
}  // namespace diptych
