// Operators that say where elements stand in an order: extrema with their positions, search, membership.
#include "diptych/xla/hlo/index_positions.h"
#include "diptych/xla/hlo/reduction_parts.h"

namespace diptych::detail {
namespace {

// The position of the first extremum along `dim`; NaN is the extremum where there is one.
Hlo first_position(HloWriter& writer, const Hlo& x, const Hlo& extremum, int64_t dim) {
  const Hlo spread = spread_back(writer, extremum, x, {dim});
  Hlo is_extremum = writer.compare("EQ", x, spread);
  if (at::isFloatingType(x.dtype)) is_extremum = writer.binary("or", is_extremum, where_nan(writer, x));
  const Hlo positions = writer.iota(at::kLong, x.sizes, dim);
  const Hlo found = writer.select(is_extremum, positions, constant_like(writer, highest_of(at::kLong), positions));
  return extremum_over(writer, "minimum", found, {dim});
}

template <const char* kOperation>
std::vector<Hlo> extremum_and_position(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = node.tensor(0);
  if (x.dim() == 0) return {x, writer.constant(0, at::kLong)};
  const int64_t dim = Lowering::wrap(node.integer(1), x.dim());
  const Hlo extremum = extremum_over(writer, kOperation, x, {dim});
  const Hlo position = first_position(writer, x, extremum, dim);
  return {writer.reshape(extremum, node.sizes(0)), writer.reshape(position, node.sizes(1))};
}

template <const char* kOperation>
std::vector<Hlo> extremum_position(const Lowering& node) {
  HloWriter& writer = node.writer();
  Hlo x = node.tensor(0);
  const bool is_flat = !node.is_given(1) || x.dim() == 0;
  if (is_flat) x = writer.reshape(x, {count_over(x, reduced_dims(node, kNoDims, x.dim()))});
  const int64_t dim = is_flat ? 0 : Lowering::wrap(node.integer(1), x.dim());
  const Hlo extremum = extremum_over(writer, kOperation, x, {dim});
  return {writer.reshape(first_position(writer, x, extremum, dim), node.sizes())};
}

// ATen's binary search, step by step, for what is not sorted or NaN ends where ATen's does.
Hlo search(const Lowering& node, const Hlo& sorted, const Hlo& x, bool is_right) {
  HloWriter& writer = node.writer();
  Hlo begin = writer.constant(0, at::kLong, x.sizes), end = writer.constant(sorted.sizes[0], at::kLong, x.sizes);
  const Hlo one = node.filled(1, begin);
  for (int64_t left = sorted.sizes[0]; left > 0; left /= 2) {
    const Hlo half = writer.binary("shift_right_logical", writer.binary("subtract", end, begin), one);
    const Hlo middle = writer.binary("add", begin, half);
    const Hlo is_before =
        writer.unary("not", writer.compare(is_right ? "GT" : "GE", writer.take(sorted, middle, 0), x));
    const Hlo is_open = writer.compare("LT", begin, end);
    begin = writer.select(writer.binary("and", is_open, is_before), writer.binary("add", middle, one), begin);
    end = writer.select(writer.binary("and", is_open, writer.unary("not", is_before)), middle, end);
  }
  return writer.convert(begin, node.dtype());
}
std::vector<Hlo> bucketize(const Lowering& node) {
  return {search(node, node.tensor(1), node.tensor(0), node.flag(3))};
}
std::vector<Hlo> searchsorted(const Lowering& node) {
  return {search(node, node.tensor(0), node.tensor(1), node.flag(3) || node.text(4) == "right")};
}
// Both tensors have one dtype, or ATen promotes in ways of its own; a sorted sequence of its own for each row is not
// taken.
bool is_plain_search(const Lowering& node, size_t sorted, size_t x) {
  const TensorMeta *const boundaries = operand_meta(node, sorted), *const searched = operand_meta(node, x);
  return boundaries != nullptr && searched != nullptr && boundaries->sizes.size() == 1 &&
         boundaries->dtype == searched->dtype && !at::isComplexType(searched->dtype) && searched->dtype != at::kBool;
}
bool is_plain_bucketize(const Lowering& node) { return is_plain_search(node, 1, 0); }
bool is_plain_searchsorted(const Lowering& node) { return is_plain_search(node, 0, 1) && !node.has_tensor(5); }

// Every element beside every one that is searched for, which fits few of them.
std::vector<Hlo> is_among(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = node.tensor(0), tests = node.tensor(1);
  const int64_t rows = elements_of(x.sizes), columns = elements_of(tests.sizes);
  const bool is_inverted = node.flag(3);
  if (columns == 0) return {writer.constant(is_inverted, at::kBool, x.sizes)};
  const std::vector<int64_t> sizes{rows, columns};
  const Hlo left = writer.broadcast(writer.reshape(x, {rows}), sizes, {0});
  const Hlo right = writer.broadcast(writer.reshape(tests, {columns}), sizes, {1});
  const Hlo found = writer.reduce("or", writer.compare("EQ", left, right), writer.constant(false, at::kBool), {1});
  const Hlo result = writer.reshape(found, node.sizes());
  return {is_inverted ? writer.unary("not", result) : result};
}
bool has_few_pairs(const Lowering& node) {
  const TensorMeta *const x = operand_meta(node, 0), *const tests = operand_meta(node, 1);
  return x != nullptr && tests != nullptr && x->dtype == tests->dtype && !at::isComplexType(x->dtype) &&
         tests->numel() <= 64;
}

constexpr char kMost[] = "maximum", kLeast[] = "minimum";

constexpr LoweringRow kOrderRows[] = {
    {"aten.max.dim", extremum_and_position<kMost>},
    {"aten.min.dim", extremum_and_position<kLeast>},
    {"aten.argmax", extremum_position<kMost>},
    {"aten.argmin", extremum_position<kLeast>},
    {"aten.bucketize.Tensor", bucketize, is_plain_bucketize},
    {"aten.isin.Tensor_Tensor", is_among, has_few_pairs},
    {"aten.searchsorted.Tensor", searchsorted, is_plain_searchsorted},
};

}  // namespace

std::span<const LoweringRow> order_lowerings() { return kOrderRows; }

}  // namespace diptych::detail
