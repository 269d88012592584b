// Shapes of Fourier transforms as MKL runs them: batches first, in the order of their strides, and signals last; the
// result is permuted back. A LibTorch without MKL lays out results differently and is not covered.
#include <ATen/Context.h>

#include <algorithm>
#include <numeric>

#include "diptych/ops/shapes_table.h"

namespace diptych::detail {
namespace {

// The order in which the kernel lays out dimensions: batches by falling stride, then the transformed ones as given.
std::vector<int64_t> batches_first(const at::Tensor& self, at::IntArrayRef dims) {
  std::vector<int64_t> order(static_cast<size_t>(self.dim()));
  std::iota(order.begin(), order.end(), 0);
  const auto is_batch = [&](int64_t d) { return std::find(dims.begin(), dims.end(), d) == dims.end(); };
  const auto batches_end = std::partition(order.begin(), order.end(), is_batch);
  std::sort(order.begin(), batches_end, [&](int64_t a, int64_t b) { return self.stride(a) > self.stride(b); });
  std::copy(dims.begin(), dims.end(), batches_end);
  return order;
}

at::Tensor transform(const at::Tensor& self, at::IntArrayRef sizes, at::IntArrayRef dims, at::ScalarType dtype) {
  const auto order = batches_first(self, dims);
  std::vector<int64_t> strides(order.size());
  int64_t stride = 1;
  for (auto dim = order.rbegin(); dim != order.rend(); ++dim) {
    strides[static_cast<size_t>(*dim)] = stride;
    stride *= sizes[static_cast<size_t>(*dim)];
  }
  return meta_strided(sizes, strides, dtype);
}

// Dimensions by falling stride; the last one keeps its place where it is the real one.
std::vector<int64_t> sorted_by_stride(const at::Tensor& self, std::vector<int64_t> dims, bool keep_last) {
  std::sort(dims.begin(), dims.end() - (keep_last ? 1 : 0),
            [&](int64_t a, int64_t b) { return self.stride(a) > self.stride(b); });
  return dims;
}

at::Tensor c2c(const at::Tensor& self, at::IntArrayRef dims, int64_t, bool) {
  TORCH_CHECK(self.is_complex(), "_fft_c2c expects a complex tensor, but got ", self.scalar_type());
  if (dims.empty()) return meta_like(self);
  return transform(self, self.sizes(), sorted_by_stride(self, dims.vec(), /*keep_last=*/false), self.scalar_type());
}

at::Tensor r2c(const at::Tensor& self, at::IntArrayRef dims, int64_t, bool onesided) {
  TORCH_CHECK(self.is_floating_point(), "_fft_r2c expects a real tensor, but got ", self.scalar_type());
  const auto sorted = sorted_by_stride(self, dims.vec(), /*keep_last=*/true);
  auto sizes = self.sizes().vec();
  if (onesided) sizes[static_cast<size_t>(sorted.back())] = self.size(sorted.back()) / 2 + 1;
  return transform(self, sizes, sorted, c10::toComplexType(self.scalar_type()));
}

at::Tensor c2r(const at::Tensor& self, at::IntArrayRef dims, int64_t normalization, int64_t last_size) {
  TORCH_CHECK(self.is_complex(), "_fft_c2r expects a complex tensor, but got ", self.scalar_type());
  // All but the last dimension are transformed first, by a call of their own.
  const at::Tensor input = c2c(self, dims.slice(0, dims.size() - 1), normalization, /*forward=*/false);
  auto sizes = self.sizes().vec();
  sizes[static_cast<size_t>(dims.back())] = last_size;
  return transform(dims.size() > 1 ? input : self, sizes, dims.slice(dims.size() - 1),
                   c10::toRealValueType(self.scalar_type()));
}

template <auto F>
bool if_mkl(const c10::OperatorHandle& op, c10::Stack& stack) {
  return at::globalContext().hasMKL() && call_typed<F>(op, stack);
}

}  // namespace

ShapeRows fft_shapes() {
  return {
      {"aten::_fft_c2c", &if_mkl<c2c>, count_arguments(c2c)},
      {"aten::_fft_r2c", &if_mkl<r2c>, count_arguments(r2c)},
      {"aten::_fft_c2r", &if_mkl<c2r>, count_arguments(c2r)},
  };
}

}  // namespace diptych::detail
