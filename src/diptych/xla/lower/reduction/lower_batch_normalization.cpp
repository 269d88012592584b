// Normalization over batches and over groups of channels, where no decomposition stands for them.
#include <functional>
#include <numeric>

#include "diptych/xla/hlo/lowering_windows.h"

namespace diptych::detail {
namespace {

// Means over some dimensions, spread over the tensor again.
class SpreadMeans {
 public:
  SpreadMeans(HloWriter& writer, const std::vector<int64_t>& sizes, std::vector<int64_t> dims)
      : writer_(writer), sizes_(sizes), dims_(std::move(dims)) {
    for (int64_t i = 0; i < static_cast<int64_t>(sizes.size()); ++i) {
      if (std::find(dims_.begin(), dims_.end(), i) == dims_.end()) kept_.push_back(i);
    }
    for (const int64_t dim : dims_) count_ *= sizes[dim];
  }
  Hlo sum(const Hlo& x) const { return writer_.reduce("add", x, writer_.constant(0, x.dtype), dims_); }
  Hlo mean(const Hlo& x) const {
    const Hlo total = sum(x);
    return writer_.binary("divide", total, writer_.constant(static_cast<double>(count_), total.dtype, total.sizes));
  }
  Hlo spread(const Hlo& row) const { return writer_.broadcast(row, sizes_, kept_); }

 private:
  HloWriter& writer_;
  std::vector<int64_t> sizes_, dims_, kept_;
  int64_t count_ = 1;
};

struct Normalized {
  Hlo values, mean, inverse_deviation;
};

Hlo inverse_root(HloWriter& writer, const Hlo& variance, double epsilon) {
  const Hlo shifted = writer.binary("add", variance, writer.constant(epsilon, variance.dtype, variance.sizes));
  return writer.unary("rsqrt", shifted);
}

Normalized normalize(HloWriter& writer, const Hlo& x, const SpreadMeans& means, double epsilon) {
  const Hlo mean = means.mean(x), centered = writer.binary("subtract", x, means.spread(mean));
  const Hlo inverse = inverse_root(writer, means.mean(writer.binary("multiply", centered, centered)), epsilon);
  return {writer.binary("multiply", centered, means.spread(inverse)), mean, inverse};
}

// Applies the weight and the bias, operands of one number per channel, which is dimension 1.
Hlo channel_affine(const Lowering& node, Hlo x, size_t weight) {
  HloWriter& writer = node.writer();
  const auto over = [&](size_t operand) { return writer.broadcast(node.converted(operand, x.dtype), x.sizes, {1}); };
  if (node.has_tensor(weight)) x = writer.binary("multiply", x, over(weight));
  if (node.has_tensor(weight + 1)) x = writer.binary("add", x, over(weight + 1));
  return x;
}

std::vector<int64_t> all_but_channels(int64_t rank) {
  std::vector<int64_t> dims{0};
  for (int64_t i = 2; i < rank; ++i) dims.push_back(i);
  return dims;
}

// Training without running statistics, which the kernel would write to.
template <size_t kEpsilon>
std::vector<Hlo> batch_norm_of_batch(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = node.converted(0, Lowering::wide(node.dtype()));
  const SpreadMeans means(writer, x.sizes, all_but_channels(x.dim()));
  const Normalized normal = normalize(writer, x, means, node.number(kEpsilon));
  return {writer.convert(channel_affine(node, normal.values, 1), node.dtype()),
          writer.convert(normal.mean, node.dtype(1)), writer.convert(normal.inverse_deviation, node.dtype(2))};
}

bool has_elements(const Lowering& node) {
  const auto sizes = node.sizes();
  return std::find(sizes.begin(), sizes.end(), 0) == sizes.end() && at::isFloatingType(node.dtype());
}
bool is_without_statistics(const Lowering& node) {
  return has_elements(node) && node.flag(5) && !node.has_tensor(3) && !node.has_tensor(4);
}
bool is_training_without_statistics(const Lowering& node) { return has_elements(node) && node.flag(3); }

// (batch, groups, channels of a group, elements of a channel)
std::vector<int64_t> group_sizes(const Lowering& node, size_t first) {
  const int64_t groups = node.integer(first + 3);
  return {node.integer(first), groups, node.integer(first + 1) / groups, node.integer(first + 2)};
}

// A tensor of the batch and channels as the operands say, which has one number per channel, over grouped elements.
Hlo over_groups(const Lowering& node, size_t operand, const std::vector<int64_t>& grouped, at::ScalarType dtype) {
  const Hlo channels = node.writer().reshape(node.converted(operand, dtype), {grouped[1], grouped[2]});
  return node.writer().broadcast(channels, grouped, {1, 2});
}

std::vector<Hlo> group_norm(const Lowering& node) {
  HloWriter& writer = node.writer();
  const auto computed = Lowering::wide(node.dtype());
  const auto grouped = group_sizes(node, 3);
  const SpreadMeans means(writer, grouped, {2, 3});
  const Normalized normal =
      normalize(writer, writer.reshape(node.converted(0, computed), grouped), means, node.number(7));
  Hlo result = normal.values;
  if (node.has_tensor(1)) result = writer.binary("multiply", result, over_groups(node, 1, grouped, computed));
  if (node.has_tensor(2)) result = writer.binary("add", result, over_groups(node, 2, grouped, computed));
  return {writer.convert(writer.reshape(result, node.sizes()), node.dtype()),
          writer.convert(normal.mean, node.dtype(1)), writer.convert(normal.inverse_deviation, node.dtype(2))};
}

std::vector<Hlo> group_norm_backward(const Lowering& node) {
  HloWriter& writer = node.writer();
  const auto computed = Lowering::wide(node.tensor(1).dtype);
  const auto grouped = group_sizes(node, 5);
  const SpreadMeans means(writer, grouped, {2, 3}), channels(writer, grouped, {0, 3});
  const auto times = [&](const Hlo& a, const Hlo& b) { return writer.binary("multiply", a, b); };
  const auto minus = [&](const Hlo& a, const Hlo& b) { return writer.binary("subtract", a, b); };
  const Hlo gradient = writer.reshape(node.converted(0, computed), grouped);
  const Hlo x = writer.reshape(node.converted(1, computed), grouped);
  const auto statistic = [&](size_t i) {
    return means.spread(writer.reshape(node.converted(i, computed), {grouped[0], grouped[1]}));
  };
  const Hlo inverse = statistic(3), normal = times(minus(x, statistic(2)), inverse);
  std::vector<Hlo> results(3);
  if (node.has_result(0)) {
    const Hlo scaled = node.has_tensor(4) ? times(gradient, over_groups(node, 4, grouped, computed)) : gradient;
    const Hlo along = times(normal, means.spread(means.mean(times(scaled, normal))));
    results[0] = times(minus(minus(scaled, means.spread(means.mean(scaled))), along), inverse);
  }
  if (node.has_result(1)) results[1] = channels.sum(times(gradient, normal));
  if (node.has_result(2)) results[2] = channels.sum(gradient);
  for (size_t i = 0; i < results.size(); ++i) {
    if (node.has_result(i)) results[i] = writer.convert(writer.reshape(results[i], node.sizes(i)), node.dtype(i));
  }
  return results;
}

bool has_grouped_elements(const Lowering& node) {
  const auto sizes = operand_sizes(node, 1);
  return std::find(sizes.begin(), sizes.end(), 0) == sizes.end();
}

constexpr LoweringRow kBatchNormalizationRows[] = {
    {"aten.native_batch_norm", batch_norm_of_batch<7>, is_without_statistics},
    {"aten._native_batch_norm_legit.no_stats", batch_norm_of_batch<5>, is_training_without_statistics},
    {"aten.native_group_norm", group_norm, has_elements},
    {"aten.native_group_norm_backward", group_norm_backward, has_grouped_elements},
};

}  // namespace

std::span<const LoweringRow> batch_normalization_lowerings() { return kBatchNormalizationRows; }

}  // namespace diptych::detail
