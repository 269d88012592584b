// What loops mean: the same written out, in eager.
#pragma once
#include "diptych/base/list.h"
#include "testing/eager_check.h"
#include "testing/values.h"

namespace diptych::testing {

using detail::joined;
/// What a loop returns as one list.
inline Tensors joined(std::pair<Tensors, Tensors> parts) { return joined(std::move(parts.first), parts.second); }

/// A step: carries, then slices, to carries, then outputs.
using Step = std::function<std::pair<Tensors, Tensors>(Tensors carry, const Tensors& slices)>;

/// scan() as a C++ loop. Requires: at least one step if there are outputs.
inline std::pair<Tensors, Tensors> unrolled_scan(const Step& step, Tensors carry, const Tensors& xs,
                                                 const ScanOptions& options = {}) {
  const int64_t length = xs.empty() ? *options.length : xs[0].size(0);
  std::vector<Tensors> rows(length);
  for (int64_t i = 0; i < length; ++i) {
    const int64_t at = options.reverse ? length - 1 - i : i;
    Tensors slices;
    for (const at::Tensor& x : xs) slices.push_back(x[at]);
    std::tie(carry, rows[at]) = step(carry, slices);
  }
  Tensors stacks;
  for (size_t k = 0; length > 0 && k < rows[0].size(); ++k) {
    Tensors column;
    for (const Tensors& row : rows) column.push_back(row[k]);
    stacks.push_back(torch::stack(column));
  }
  return {carry, stacks};
}

}  // namespace diptych::testing
