// Where the elements of a value are while a plan runs.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "diptych/graph/tensor_meta.h"

namespace diptych::detail {

/// A tensor without a tensor object: a region of memory, which a run gives an address, and what lies in it.
struct Place {
  int32_t region = -1;
  int64_t offset = 0;  ///< of element 0; bytes
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> sizes, strides;  ///< strides in elements

  char* data(char* const* regions) const { return regions[region] + offset; }
  int64_t itemsize() const { return static_cast<int64_t>(c10::elementSize(dtype)); }
  int64_t numel() const;
  int64_t bytes() const { return numel() * itemsize(); }  ///< of its elements alone
  int64_t span() const;                                   ///< bytes from element 0 to the end of the last one
  bool is_dense() const;
  /// Whether its elements lie as strides say; strides of dims of one element say nothing.
  bool has_strides(const std::vector<int64_t>& wanted) const;
};

/// The place of a static value's elements, element 0 at the beginning of a region.
Place place_of(const TensorMeta& meta, int32_t region);

/// A tensor of a place's sizes and strides, whose memory is set by point_at().
at::Tensor make_window(const Place& place);

/// Lets a window show the elements from `data` on.
void point_at(const at::Tensor& window, char* data);

}  // namespace diptych::detail
