#include "diptych/xla/hlo/hlo_text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace diptych::detail {

std::string hlo_array(at::IntArrayRef values) {
  return values.empty() ? "array<i64>" : fmt::format("array<i64: {}>", fmt::join(values, ", "));
}

std::string hlo_pairs(const std::vector<std::pair<int64_t, int64_t>>& values) {
  std::vector<std::string> rows;
  for (const auto& [low, high] : values) rows.push_back(fmt::format("[{}, {}]", low, high));
  return fmt::format("dense<[{}]> : tensor<{}x2xi64>", fmt::join(rows, ", "), values.size());
}

std::string hlo_names(std::span<const Hlo> values) {
  std::vector<std::string_view> list;
  for (const Hlo& value : values) list.push_back(value.name);
  return fmt::format("{}", fmt::join(list, ", "));
}

std::string hlo_types(std::span<const Hlo> values) {
  std::vector<std::string> list;
  for (const Hlo& value : values) list.push_back(hlo_type(value));
  return fmt::format("{}", fmt::join(list, ", "));
}

std::vector<int64_t> without(const std::vector<int64_t>& sizes, at::IntArrayRef dims) {
  std::vector<int64_t> kept;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(i)) == dims.end()) kept.push_back(sizes[i]);
  }
  return kept;
}

std::vector<int64_t> counted(int64_t from, int64_t to) {
  std::vector<int64_t> list(std::max<int64_t>(to - from, 0));
  std::iota(list.begin(), list.end(), from);
  return list;
}

int64_t num_windows(int64_t size, int64_t window, int64_t stride) {
  return size < window ? 0 : (size - window) / stride + 1;
}

}  // namespace diptych::detail
