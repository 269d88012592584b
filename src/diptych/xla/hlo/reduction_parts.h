// What reductions, scans, norms and losses share.
#pragma once
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "diptych/xla/hlo/lowering.h"

namespace diptych::detail {

/// The position of an operand that no operator has, for reductions over all dimensions.
constexpr size_t kNoDims = 99;

/// The dimensions that operand `operand` names, counted from 0; all of them where it names none.
std::vector<int64_t> reduced_dims(const Lowering& node, size_t operand, int64_t rank);

/// The least and the greatest number of a dtype: infinities of those that have them.
at::Scalar lowest_of(at::ScalarType dtype);
at::Scalar highest_of(at::ScalarType dtype);

Hlo sum_over(HloWriter& writer, const Hlo& x, at::IntArrayRef dims);
/// The largest element ("maximum") or the smallest ("minimum"); NaN where there is one.
Hlo extremum_over(HloWriter& writer, std::string_view operation, const Hlo& x, at::IntArrayRef dims);
/// A reduction of `x` over `dims`, spread over the sizes of `x` again.
Hlo spread_back(HloWriter& writer, const Hlo& reduced, const Hlo& x, at::IntArrayRef dims);
/// The product of the sizes of `dims`.
int64_t count_over(const Hlo& x, at::IntArrayRef dims);
Hlo constant_like(HloWriter& writer, const at::Scalar& value, const Hlo& like);
/// Which elements are NaN, or differ from zero (NaN does).
Hlo where_nan(HloWriter& writer, const Hlo& x);
Hlo where_nonzero(HloWriter& writer, const Hlo& x);
/// One of the tensors that are scanned together, and what stands before its first element.
struct ScanPart {
  Hlo value;
  at::Scalar neutral;
};
using Combine =
    std::function<std::vector<Hlo>(HloWriter& writer, const std::vector<Hlo>& before, const std::vector<Hlo>& here)>;
/// Scans along a dimension. The reach doubles with each step: after step k an element has taken in the 2^k elements
/// that end at it.
std::vector<Hlo> scan_along(HloWriter& writer, const std::vector<ScanPart>& parts, int64_t dim, const Combine& combine);
/// The same of one tensor, by an operation of two: "add", "maximum".
Hlo running(HloWriter& writer, std::string_view operation, const Hlo& x, int64_t dim, const at::Scalar& neutral);
/// The norm of real numbers that are not negative: `order` 0 counts, infinities are extrema, others are powers' roots.
Hlo norm_over(HloWriter& writer, const Hlo& magnitudes, double order, at::IntArrayRef dims);

}  // namespace diptych::detail
