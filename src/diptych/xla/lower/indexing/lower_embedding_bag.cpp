// Sums and means of bags of rows of a table, and their gradients. A bag is a range of the indices, which begins at its
// offset; rows of the padding index do not count.
#include "diptych/xla/hlo/hlo_term.h"
#include "diptych/xla/hlo/index_positions.h"
#include "diptych/xla/hlo/reduction_parts.h"

namespace diptych::detail {
namespace {

constexpr int64_t kBagMean = 1;

/// The elements of all bags, in order: their rows of the table, their bags, and whether they count.
struct Bags {
  Hlo rows, bags, counts;  ///< i64, i64 and bool [elements]
};

// An element is in the last bag that begins at it or before.
Hlo bag_of_elements(HloWriter& writer, const Hlo& offsets, int64_t bags, int64_t elements) {
  const std::vector<int64_t> pairs{elements, bags};
  const Hlo begins = writer.slice_along(writer.convert(offsets, at::kLong), 0, 0, bags);
  const HloTerm element(writer, writer.iota(at::kLong, pairs, 0));
  const HloTerm has_begun = element >= element.with(writer.broadcast(begins, pairs, {1}));
  const HloTerm count = element.with(sum_over(writer, has_begun.to(at::kLong).value(), {1}));
  return (count - 1.0).value();
}
Bags bags_of(HloWriter& writer, const Hlo& indices, const Hlo& bags, int64_t padding) {
  const HloTerm rows(writer, writer.convert(indices, at::kLong));
  return {rows.value(), bags, rows.differs(rows.like(at::Scalar(padding))).value()};
}
// The number of elements in each bag; one for none, as a divisor.
Hlo sizes_of_bags(HloWriter& writer, const Bags& all, int64_t count) {
  const Hlo zeros = writer.constant(0, at::kLong, {count});
  return writer.scatter_along("add", zeros, 0, all.bags, writer.convert(all.counts, at::kLong));
}
HloTerm at_least_one(const HloTerm& x) { return maximum(x, x.like(1)); }

// A column of numbers, one for each row of `like`.
HloTerm as_column(const HloTerm& like, const Hlo& numbers) {
  return like.with(like.writer().broadcast(like.writer().convert(numbers, like.dtype()), like.value().sizes, {0}));
}
// Positions at which what does not count is skipped.
Hlo counted_positions(HloWriter& writer, const Hlo& positions, const Hlo& counts) {
  return HloTerm(writer, counts).choose(HloTerm(writer, positions), -1.0).value();
}

std::vector<Hlo> embedding_bag(const Lowering& node) {
  HloWriter& writer = node.writer();
  const int64_t bags = node.sizes()[0], elements = node.tensor(1).sizes[0], mode = node.integer(4);
  const Hlo table = node.converted(0, Lowering::wide(node.dtype()));
  const Bags all =
      bags_of(writer, node.tensor(1), bag_of_elements(writer, node.tensor(2), bags, elements), node.integer(8, -1));
  HloTerm rows(writer, writer.take(table, all.rows, 0));
  if (node.has_tensor(6)) rows = rows * as_column(rows, node.tensor(6));
  const Hlo zeros = writer.constant(0, table.dtype, node.sizes());
  const Hlo places = counted_positions(writer, all.bags, all.counts);
  HloTerm sums(writer, writer.scatter_along("add", zeros, 0, places, rows.value()));
  Hlo sizes = writer.constant(0, at::kLong, {bags});
  if (mode == kBagMean) {
    sizes = sizes_of_bags(writer, all, bags);
    sums = sums / at_least_one(as_column(sums, sizes));
  }
  const bool has_bags = elements_of(node.sizes(1)) > 0;
  const Hlo number_of_bag = has_bags ? all.bags : writer.constant(0, at::kLong, node.sizes(1));
  const auto whole = [&](const Hlo& x, size_t i) { return writer.convert(x, node.dtype(i)); };
  return {sums.to(node.dtype()).value(), whole(number_of_bag, 1), whole(sizes, 2), whole(sizes, 3)};
}

template <size_t kIndices>
int64_t elements_in_bags(const Lowering& node) {
  const TensorMeta* const indices = operand_meta(node, kIndices);
  return indices == nullptr || indices->sizes.size() != 1 ? 0 : indices->numel();
}
// Each bag is compared with each element, which fits some thousands of them.
bool is_bag_of_sums(const Lowering& node) {
  constexpr int64_t kMostPairs = 1 << 24;
  const int64_t elements = elements_in_bags<1>(node), bags = node.sizes()[0];
  if (elements == 0 || bags == 0 || elements * bags > kMostPairs || node.integer(4) > kBagMean) return false;
  const auto sizes = node.sizes(1);
  return has_real_float_result(node) && sizes.size() == 1 && (sizes[0] == 0 || sizes[0] == elements) &&
         node.sizes(2) == std::vector<int64_t>{bags} && node.sizes(3) == node.sizes(2);
}

// What the forward pass left of the elements' bags; nothing where it took a short cut.
Hlo known_bags(const Lowering& node, size_t offsets, int64_t bags, int64_t elements) {
  const Hlo known = node.tensor(offsets + 1);
  HloWriter& writer = node.writer();
  if (elements_of(known.sizes) == elements) return writer.convert(known, at::kLong);
  return bag_of_elements(writer, node.tensor(offsets), bags, elements);
}
std::vector<Hlo> embedding_bag_backward(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo gradient = node.converted(0, Lowering::wide(node.dtype()));
  const int64_t bags = gradient.sizes[0], elements = node.tensor(1).sizes[0];
  const Bags all = bags_of(writer, node.tensor(1), known_bags(node, 2, bags, elements), node.integer(11, -1));
  HloTerm rows(writer, writer.take(gradient, all.bags, 0));
  if (node.has_tensor(10)) rows = rows * as_column(rows, node.tensor(10));
  if (node.integer(8) == kBagMean) {
    const Hlo sizes = writer.take(sizes_of_bags(writer, all, bags), all.bags, 0);
    rows = rows / at_least_one(as_column(rows, sizes));
  }
  const Hlo zeros = writer.constant(0, gradient.dtype, node.sizes());
  const Hlo places = counted_positions(writer, all.rows, all.counts);
  return as_result(node, rows.with(writer.scatter_along("add", zeros, 0, places, rows.value())));
}
bool is_dense_bag_gradient(const Lowering& node) {
  return has_real_float_result(node) && elements_in_bags<1>(node) > 0 && node.integer(8) <= kBagMean && !node.flag(7) &&
         !node.flag(9);
}

std::vector<Hlo> bag_weights_backward(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo gradient = node.converted(0, Lowering::wide(node.dtype()));
  const int64_t bags = gradient.sizes[0], elements = node.tensor(2).sizes[0];
  const Bags all = bags_of(writer, node.tensor(2), known_bags(node, 3, bags, elements), node.integer(6, -1));
  const HloTerm of_bags(writer, writer.take(gradient, all.bags, 0));
  const HloTerm products = of_bags * of_bags.with(writer.take(node.converted(1, gradient.dtype), all.rows, 0));
  const HloTerm sums = products.with(sum_over(writer, products.value(), {1}));
  return as_result(node, sums.with(all.counts).choose(sums, 0.0));
}
bool has_weighted_elements(const Lowering& node) {
  return has_real_float_result(node) && elements_in_bags<2>(node) > 0;
}

constexpr LoweringRow kEmbeddingBagRows[] = {
    {"aten._embedding_bag", embedding_bag, is_bag_of_sums},
    {"aten._embedding_bag_forward_only", embedding_bag, is_bag_of_sums},
    {"aten._embedding_bag_backward", embedding_bag_backward, is_dense_bag_gradient},
    {"aten._embedding_bag_per_sample_weights_backward", bag_weights_backward, has_weighted_elements},
};

}  // namespace

std::span<const LoweringRow> embedding_bag_lowerings() { return kEmbeddingBagRows; }

}  // namespace diptych::detail
