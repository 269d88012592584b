// Pieces of StableHLO's text that several operations have.
#pragma once
#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "diptych/xla/hlo/hlo_writer.h"

namespace diptych::detail {

/// "array<i64: 1, 2>"
std::string hlo_array(at::IntArrayRef values);
/// "dense<[[0, 1], [2, 2]]> : tensor<2x2xi64>"
std::string hlo_pairs(const std::vector<std::pair<int64_t, int64_t>>& values);
/// "%0, %3"
std::string hlo_names(std::span<const Hlo> values);
/// "tensor<2xf32>, tensor<i1>"
std::string hlo_types(std::span<const Hlo> values);

/// The list without the entries at the positions `dims`.
std::vector<int64_t> without(const std::vector<int64_t>& sizes, at::IntArrayRef dims);
/// from, from + 1, ..., to - 1.
std::vector<int64_t> counted(int64_t from, int64_t to);
/// How many windows lie within `size` elements.
int64_t num_windows(int64_t size, int64_t window, int64_t stride);

}  // namespace diptych::detail
