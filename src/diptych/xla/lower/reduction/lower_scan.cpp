// Running sums, products and extrema along a dimension.
#include "diptych/xla/hlo/reduction_parts.h"

namespace diptych::detail {
namespace {

// ATen's running sums, products and logarithms of sums accumulate in f64 for f32, and in f32 for half types: a product
// that leaves the range of f32 and comes back is not lost.
at::ScalarType running_dtype(at::ScalarType dtype) {
  if (at::isReducedFloatingType(dtype)) return at::kFloat;
  return dtype == at::kFloat ? at::kDouble : dtype == at::kComplexFloat ? at::kComplexDouble : dtype;
}

template <const char* kOperation, int kNeutral>
std::vector<Hlo> running_fold(const Lowering& node) {
  const Hlo x = node.writer().convert(node.converted(0, node.dtype()), running_dtype(node.dtype()));
  const Hlo folded = running(node.writer(), kOperation, x, Lowering::wrap(node.integer(1), x.dim()), kNeutral);
  return {node.writer().convert(folded, node.dtype())};
}
bool is_not_truth(const Lowering& node) { return node.dtype() != at::kBool; }

// log(exp(a) + exp(b)), where equal infinities are not subtracted.
std::vector<Hlo> add_exponentials(HloWriter& writer, const std::vector<Hlo>& before, const std::vector<Hlo>& here) {
  const Hlo low = writer.binary("minimum", before[0], here[0]), high = writer.binary("maximum", before[0], here[0]);
  const Hlo rest = writer.unary("log_plus_one", writer.unary("exponential", writer.binary("subtract", low, high)));
  const Hlo is_infinite =
      writer.compare("EQ", writer.unary("abs", high), constant_like(writer, highest_of(high.dtype), high));
  return {writer.select(is_infinite, high, writer.binary("add", high, rest))};
}
std::vector<Hlo> logcumsumexp(const Lowering& node) {
  const Hlo x = node.converted(0, running_dtype(node.dtype()));
  const int64_t dim = Lowering::wrap(node.integer(1), x.dim());
  return {node.writer().convert(scan_along(node.writer(), {{x, lowest_of(x.dtype)}}, dim, add_exponentials)[0],
                                node.dtype())};
}
bool is_real_scan(const Lowering& node) { return at::isFloatingType(node.dtype()); }

// A later element replaces an earlier one that it equals, and NaN replaces everything.
template <const char* kDirection>
std::vector<Hlo> take_better(HloWriter& writer, const std::vector<Hlo>& before, const std::vector<Hlo>& here) {
  Hlo is_here = writer.compare(kDirection, here[0], before[0]);
  if (at::isFloatingType(here[0].dtype)) {
    const Hlo is_before_nan = where_nan(writer, before[0]), is_here_nan = where_nan(writer, here[0]);
    is_here = writer.binary("or", is_here_nan, writer.binary("and", is_here, writer.unary("not", is_before_nan)));
  }
  return {writer.select(is_here, here[0], before[0]), writer.select(is_here, here[1], before[1])};
}
template <const char* kDirection, bool kIsLargest>
std::vector<Hlo> running_extremum(const Lowering& node) {
  const Hlo x = node.tensor(0);
  if (x.dim() == 0) return {x, node.writer().constant(0, at::kLong)};
  const int64_t dim = Lowering::wrap(node.integer(1), x.dim());
  const Hlo positions = node.writer().iota(at::kLong, x.sizes, dim);
  const at::Scalar neutral = kIsLargest ? lowest_of(x.dtype) : highest_of(x.dtype);
  return scan_along(node.writer(), {{x, neutral}, {positions, 0}}, dim, take_better<kDirection>);
}

constexpr char kFoldAdd[] = "add", kFoldMultiply[] = "multiply", kAtLeast[] = "GE", kAtMost[] = "LE";

constexpr LoweringRow kScanRows[] = {
    {"aten.cumsum", running_fold<kFoldAdd, 0>, is_not_truth},
    {"aten.cumprod", running_fold<kFoldMultiply, 1>, is_not_truth},
    {"aten.logcumsumexp", logcumsumexp, is_real_scan},
    {"aten._logcumsumexp", logcumsumexp, is_real_scan},
    {"aten.cummax", running_extremum<kAtLeast, true>},
    {"aten.cummin", running_extremum<kAtMost, false>},
};

}  // namespace

std::span<const LoweringRow> scan_lowerings() { return kScanRows; }

}  // namespace diptych::detail
