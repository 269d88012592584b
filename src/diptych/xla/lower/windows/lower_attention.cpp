// Scaled dot-product attention and its gradient, and the softmax that bears rows without a finite element.
#include <algorithm>
#include <cmath>
#include <limits>

#include "diptych/xla/hlo/lowering_windows.h"

namespace diptych::detail {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();
constexpr int64_t kPlaces = 2, kKeys = 3;  ///< dimensions of scores: (batch, head, place, key)

/// Where the operands stand: the query (the key and the value follow), dropout (causal follows), mask (scale follows).
struct AttentionOperands {
  size_t query, dropout, mask;
};
constexpr AttentionOperands kForwardOperands{0, 3, 5};
constexpr AttentionOperands kBackwardOperands{1, 6, 8};

// Attention with all its scores in memory. As ATen's kernel does, it computes half types in f32.
class Attention {
 public:
  Attention(const Lowering& node, const AttentionOperands& operands)
      : node_(node), writer_(node.writer()), operands_(operands) {
    computed = Lowering::wide(node.tensor(operands.query).dtype);
    query = node.converted(operands.query, computed);
    key = repeat(node.converted(operands.query + 1, computed));
    value = repeat(node.converted(operands.query + 2, computed));
    scale = node.number(operands.mask + 1, 1.0 / std::sqrt(static_cast<double>(query.sizes[3])));
  }

  /// Query times key, scaled and masked: what may not be seen is -infinity.
  Hlo scores() const {
    Hlo scores = times(writer_.dot_general(query, key, {{0, 1}, {0, 1}, {3}, {3}}, computed), scale);
    if (node_.has_tensor(operands_.mask)) {
      const Hlo mask = node_.converted(operands_.mask, computed);
      scores = writer_.binary("add", scores, writer_.broadcast_to(mask, scores.sizes));
    }
    if (!node_.flag(operands_.dropout + 1)) return scores;
    // Place i sees the keys 0 to i, also where there are more keys than places.
    const Hlo place = writer_.iota(at::kInt, scores.sizes, kPlaces),
              position = writer_.iota(at::kInt, scores.sizes, kKeys);
    return writer_.select(writer_.compare("LE", position, place), scores, node_.filled(kMinusInfinity, scores));
  }

  Hlo times(const Hlo& x, double factor) const { return writer_.binary("multiply", x, node_.filled(factor, x)); }
  /// The sum, or another reduction, over keys: (batch, head, place).
  Hlo over_keys(std::string_view operation, const Hlo& x, double initial) const {
    return writer_.reduce(operation, x, node_.scalar_of(initial, computed), {3});
  }
  Hlo along_keys(const Hlo& x, const std::vector<int64_t>& sizes) const {
    return writer_.broadcast(x, sizes, {0, 1, 2});
  }

  /// The gradient of a key or value, summed over the heads that shared it.
  Hlo shared_gradient(const Hlo& gradient, const std::vector<int64_t>& sizes) const {
    if (gradient.sizes == sizes) return gradient;
    const Hlo grouped = writer_.reshape(gradient, grouped_sizes(sizes));
    return writer_.reduce("add", grouped, node_.scalar_of(0, computed), {2});
  }

  at::ScalarType computed;
  Hlo query, key, value;
  double scale;

 private:
  // Neighbouring heads of the query share a head of the key.
  Hlo repeat(const Hlo& x) const {
    if (x.sizes[1] == query.sizes[1]) return x;
    auto sizes = x.sizes;
    sizes[1] = query.sizes[1];
    return writer_.reshape(writer_.broadcast(x, grouped_sizes(x.sizes), {0, 1, 3, 4}), sizes);
  }
  std::vector<int64_t> grouped_sizes(std::vector<int64_t> sizes) const {
    sizes.insert(sizes.begin() + 2, query.sizes[1] / sizes[1]);
    return sizes;
  }

  const Lowering& node_;
  HloWriter& writer_;
  const AttentionOperands& operands_;
};

// The kernel's maximum skips NaN, and a row without any finite score or infinity is 0, and so is its logsumexp.
std::vector<Hlo> attention(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Attention attention(node, kForwardOperands);
  const Hlo scores = attention.scores();
  const Hlo lowest = node.filled(kMinusInfinity, scores);
  const Hlo numbers = writer.select(writer.compare("NE", scores, scores), lowest, scores);
  const Hlo largest = attention.over_keys("maximum", numbers, kMinusInfinity);
  const Hlo is_masked = writer.compare("EQ", largest, node.filled(kMinusInfinity, largest));
  const Hlo zeros = node.filled(0, largest);
  const Hlo centered = writer.binary("subtract", scores, attention.along_keys(largest, scores.sizes));
  const Hlo weights = writer.unary("exponential", centered), sum = attention.over_keys("add", weights, 0);
  const Hlo factor = writer.select(is_masked, zeros, writer.binary("divide", node.filled(1, sum), sum));
  const Hlo masked_weights =
      writer.select(attention.along_keys(is_masked, scores.sizes), node.filled(0, scores), weights);
  Hlo output = writer.dot_general(masked_weights, attention.value, {{0, 1}, {0, 1}, {3}, {2}}, attention.computed);
  output = writer.binary("multiply", output, attention.along_keys(factor, output.sizes));
  const Hlo log_sum = writer.binary("add", largest, writer.unary("log", sum));
  return {writer.convert(output, node.dtype()),
          writer.convert(writer.select(is_masked, zeros, log_sum), node.dtype(1))};
}

std::vector<Hlo> attention_backward(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Attention attention(node, kBackwardOperands);
  const auto computed = attention.computed;
  const Hlo gradient = node.converted(0, computed), output = node.converted(4, computed);
  const Hlo scores = attention.scores();
  const Hlo log_sum = attention.along_keys(node.converted(5, computed), scores.sizes);
  const Hlo weights = writer.unary("exponential", writer.binary("subtract", scores, log_sum));
  const Hlo value_gradient = writer.dot_general(weights, gradient, {{0, 1}, {0, 1}, {2}, {2}}, computed);
  const Hlo along = attention.over_keys("add", writer.binary("multiply", gradient, output), 0);
  const Hlo weight_gradient = writer.dot_general(gradient, attention.value, {{0, 1}, {0, 1}, {3}, {3}}, computed);
  const Hlo centered = writer.binary("subtract", weight_gradient, attention.along_keys(along, scores.sizes));
  const Hlo score_gradient = attention.times(writer.binary("multiply", weights, centered), attention.scale);
  const Hlo query_gradient = writer.dot_general(score_gradient, attention.key, {{0, 1}, {0, 1}, {3}, {2}}, computed);
  const Hlo key_gradient = writer.dot_general(score_gradient, attention.query, {{0, 1}, {0, 1}, {2}, {2}}, computed);
  return {writer.convert(query_gradient, node.dtype()),
          writer.convert(attention.shared_gradient(key_gradient, node.sizes(1)), node.dtype(1)),
          writer.convert(attention.shared_gradient(value_gradient, node.sizes(2)), node.dtype(2))};
}

// Dropout draws numbers. Of nothing the kernel returns what was in memory, and of keys and values it reads as many as
// there are queries in a batch.
bool is_certain(const Lowering& node, const AttentionOperands& operands) {
  const auto query = operand_sizes(node, operands.query), key = operand_sizes(node, operands.query + 1);
  const bool is_empty = std::count(query.begin(), query.end(), 0) + std::count(key.begin(), key.end(), 0) > 0;
  const auto value = operand_sizes(node, operands.query + 2);
  const bool is_of_one_batch = key[0] == query[0] && std::equal(key.begin(), key.begin() + 3, value.begin());
  return !is_empty && is_of_one_batch && node.number(operands.dropout) == 0 && query[1] % key[1] == 0;
}
bool is_attention(const Lowering& node) { return is_certain(node, kForwardOperands); }
bool is_attention_backward(const Lowering& node) { return is_certain(node, kBackwardOperands); }

// softmax, but 0 in rows that are -infinity throughout.
std::vector<Hlo> safe_softmax(const Lowering& node) {
  HloWriter& writer = node.writer();
  const auto computed = Lowering::wide(node.dtype());
  const Hlo x = writer.convert(node.converted(0, node.dtype()), computed);
  if (x.dim() == 0) {
    const Hlo is_masked = writer.compare("EQ", x, node.filled(kMinusInfinity, x));
    const Hlo self = writer.unary("exponential", writer.binary("subtract", x, x));
    return {writer.convert(writer.select(is_masked, node.filled(0, x), self), node.dtype())};
  }
  const int64_t dim = Lowering::wrap(node.integer(1), x.dim());
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < x.dim(); ++i) {
    if (i != dim) kept.push_back(i);
  }
  const auto spread = [&](const Hlo& row) { return writer.broadcast(row, x.sizes, kept); };
  const Hlo largest = spread(writer.reduce("maximum", x, node.scalar_of(kMinusInfinity, computed), {dim}));
  const Hlo is_masked = writer.compare("EQ", largest, node.filled(kMinusInfinity, largest));
  const Hlo weights = writer.unary("exponential", writer.binary("subtract", x, largest));
  const Hlo sum = spread(writer.reduce("add", weights, node.scalar_of(0, computed), {dim}));
  const Hlo result = writer.select(is_masked, node.filled(0, x), writer.binary("divide", weights, sum));
  return {writer.convert(result, node.dtype())};
}
bool is_float_softmax(const Lowering& node) { return at::isFloatingType(node.dtype()); }

constexpr LoweringRow kAttentionRows[] = {
    {"aten._scaled_dot_product_flash_attention_for_cpu", attention, is_attention},
    {"aten._scaled_dot_product_flash_attention_for_cpu_backward", attention_backward, is_attention_backward},
    {"aten._safe_softmax", safe_softmax, is_float_softmax},
};

}  // namespace

std::span<const LoweringRow> attention_lowerings() { return kAttentionRows; }

}  // namespace diptych::detail
