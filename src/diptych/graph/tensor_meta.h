// What a graph knows about a tensor without holding one.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diptych/graph/size_expr.h"

namespace diptych {

using Sizes = std::vector<SizeExpr>;

/// The metadata of one value. Strides are in elements.
struct TensorMeta {
  at::ScalarType dtype = at::kFloat;
  c10::Device device = c10::kCPU;
  Sizes sizes;
  Sizes strides;
  bool requires_grad = false;

  /// Reads the metadata of a strided tensor (real, fake or meta).
  static TensorMeta of(const at::Tensor& tensor);
  int64_t numel() const;   ///< elements, by the hints
  int64_t nbytes() const;  ///< bytes of a dense tensor of this shape, by the hints
  bool is_static() const;  ///< no size or stride is dynamic
  std::vector<int64_t> size_hints() const;
  std::vector<int64_t> stride_hints() const;
  bool operator==(const TensorMeta&) const = default;
};

namespace detail {
/// The strides of a contiguous tensor of these sizes, as ATen makes them.
Sizes contiguous_strides(const Sizes& sizes);

/// Whether elements with these sizes and strides fill a block of memory, each with a place of its own.
bool is_dense(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides);
/// The metadata of `length` tensors like `meta`, stacked along a new first dimension, each in the layout of `meta` if
/// that is dense, and contiguous otherwise.
TensorMeta stacked(const TensorMeta& meta, int64_t length);

/// The metadata of one slice along the first dimension.
TensorMeta slice_of(const TensorMeta& stack);

/// `meta` as a contiguous tensor.
TensorMeta contiguous(TensorMeta meta);
}  // namespace detail

/// Short dtype names as code() prints them: f32, f64, f16, bf16, i64, i32, i16, i8, u8, b8, c64, c128 and some rarer.
/// Errors: UserError for a dtype that graphs do not hold (quantized types).
std::string dtype_name(at::ScalarType dtype);
/// The inverse of dtype_name. Errors: UserError lists the known names.
at::ScalarType dtype_from_name(std::string_view name);
namespace detail {
/// The same without errors: an empty name, or no dtype, where there is none.
std::string_view find_dtype_name(at::ScalarType dtype);
std::optional<at::ScalarType> find_dtype(std::string_view name);
}  // namespace detail
/// "f32[128,512]"; dynamic sizes print as expressions. Strides are printed, as "f32[2,3]{1,2}", only if they are not
/// contiguous, and the device, as "f32[2,3]@cuda:0", only if it is not the CPU.
std::string type_string(const TensorMeta& meta);

}  // namespace diptych
