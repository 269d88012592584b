// Distances between the rows of matrices, and their gradients. Source: ATen's DistanceOpsKernel.cpp.
#include <cmath>

#include "diptych/xla/hlo/hlo_term.h"
#include "diptych/xla/hlo/index_positions.h"
#include "diptych/xla/hlo/reduction_parts.h"

namespace diptych::detail {
namespace {

// Differences of all pairs of rows, [batch..., rows of x, rows of y, columns].
HloTerm pair_differences(HloWriter& writer, const Hlo& x, const Hlo& y, const std::vector<int64_t>& pairs) {
  auto sizes = pairs;
  sizes.push_back(x.sizes.back());
  const auto spread = [&](const Hlo& of, int64_t added) {
    auto with_one = of.sizes;
    with_one.insert(with_one.end() - added, 1);
    return HloTerm(writer, writer.broadcast_to(writer.reshape(of, with_one), sizes));
  };
  return spread(x, 1) - spread(y, 2);
}
Hlo distances_of(const HloTerm& differences, double p) {
  return norm_over(differences.writer(), differences.abs().value(), p, {differences.value().dim() - 1});
}
std::vector<Hlo> cdist(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = node.tensor(0), y = node.tensor(1);
  if (x.sizes.back() == 0) return {writer.constant(0, node.dtype(), node.sizes())};
  return {distances_of(pair_differences(writer, x, y, node.sizes()), node.number(2))};
}

// The slope of a distance by one difference. Where the distance is zero it has none.
HloTerm distance_slope(const HloTerm& difference, const HloTerm& distance, double p) {
  const HloTerm size = difference.abs();
  const HloTerm sign = (difference > 0.0).to(size.dtype()) - (difference < 0.0).to(size.dtype());
  if (p == 0) return size.like(0);
  if (p == 1) return sign;
  if (std::isinf(p)) return sign * (1.0 - minimum(size.like(1), (size - distance).abs().unary("ceil")));
  const HloTerm is_flat = distance.equals(0.0);
  if (p == 2) return is_flat.choose(0.0, difference / distance);
  const HloTerm scale = distance.binary("power", distance.like(p - 1));
  if (p > 2) return is_flat.choose(0.0, difference * size.binary("power", size.like(p - 2)) / scale);
  const HloTerm is_none = p < 1 ? is_flat | difference.equals(0.0) : is_flat;
  return is_none.choose(0.0, sign * size.binary("power", size.like(p - 1)) / scale);
}
// A tensor of pairs along a last dimension of columns.
HloTerm along_columns(const HloTerm& like, const Hlo& pairs) {
  auto sizes = pairs.sizes;
  sizes.push_back(1);
  return like.with(like.writer().broadcast_to(like.writer().reshape(pairs, sizes), like.value().sizes));
}
std::vector<Hlo> cdist_backward(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo gradient = node.tensor(0);
  const HloTerm difference = pair_differences(writer, node.tensor(1), node.tensor(2), gradient.sizes);
  const HloTerm slope = distance_slope(difference, along_columns(difference, node.tensor(4)), node.number(3));
  const HloTerm each = slope * along_columns(difference, gradient);
  return {sum_over(writer, each.value(), {each.value().dim() - 2})};
}
// Rows without elements leave gradients of zero, and a gradient may broadcast in ATen.
bool has_all_pairs(const Lowering& node) {
  const TensorMeta *const gradient = operand_meta(node, 0), *const distances = operand_meta(node, 4);
  return has_real_float_result(node) && gradient->sizes == distances->sizes && gradient->numel() > 0;
}

/// The pairs of different rows of one matrix, in ATen's order.
struct RowPairs {
  std::vector<int64_t> first, second;
};
RowPairs row_pairs(int64_t rows) {
  RowPairs pairs;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = i + 1; j < rows; ++j) {
      pairs.first.push_back(i);
      pairs.second.push_back(j);
    }
  }
  return pairs;
}
HloTerm differences_within(HloWriter& writer, const Hlo& x, const RowPairs& pairs) {
  const auto rows = [&](const std::vector<int64_t>& list) {
    return HloTerm(writer, writer.take(x, writer.constant_list(list, at::kInt), 0));
  };
  return rows(pairs.first) - rows(pairs.second);
}
std::vector<Hlo> pdist(const Lowering& node) {
  const Hlo x = node.tensor(0);
  if (x.sizes[1] == 0) return {node.writer().constant(0, node.dtype(), node.sizes())};
  return {distances_of(differences_within(node.writer(), x, row_pairs(x.sizes[0])), node.number(1, 2))};
}
std::vector<Hlo> pdist_backward(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = node.tensor(1);
  const RowPairs pairs = row_pairs(x.sizes[0]);
  const Hlo zeros = node.filled(0, x);
  if (pairs.first.empty()) return {zeros};
  const HloTerm difference = differences_within(writer, x, pairs);
  const HloTerm slope = distance_slope(difference, along_columns(difference, node.tensor(3)), node.number(2));
  const HloTerm each = slope * along_columns(difference, node.tensor(0));
  const auto add = [&](const Hlo& to, const std::vector<int64_t>& rows, const HloTerm& updates) {
    return writer.scatter_along("add", to, 0, writer.constant_list(rows, at::kInt), updates.value());
  };
  return {add(add(zeros, pairs.first, each), pairs.second, -each)};
}
// Pairs are a table in the program.
template <size_t kX>
bool has_few_rows(const Lowering& node) {
  return has_real_float_result(node) && operand_meta(node, kX)->size_hints()[0] <= 64;
}

constexpr LoweringRow kDistanceRows[] = {
    {"aten._cdist_forward", cdist, has_real_float_result},
    {"aten._cdist_backward", cdist_backward, has_all_pairs},
    {"aten._pdist_forward", pdist, has_few_rows<0>},
    {"aten._pdist_backward", pdist_backward, has_few_rows<1>},
};

}  // namespace

std::span<const LoweringRow> distance_lowerings() { return kDistanceRows; }

}  // namespace diptych::detail
