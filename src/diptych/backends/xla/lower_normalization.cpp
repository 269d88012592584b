// Group normalization, and the softmax that has no NaN. Layer and batch normalization are decomposed.
#include "diptych/backends/xla/reduction_parts.h"

namespace diptych::detail {
namespace {

// A batch's channels in groups: [batch, groups, channels of a group, positions].
struct Groups {
  std::vector<int64_t> sizes;
  at::ScalarType dtype;

  Groups(const Lowering& node, size_t batch)
      : sizes{node.integer(batch), node.integer(batch + 3), node.integer(batch + 1) / node.integer(batch + 3),
              node.integer(batch + 2)},
        dtype(Lowering::wide(node.graph().meta(std::get<Value>(node.node().operands[batch == 3 ? 0 : 1])).dtype)) {}

  Hlo grouped(const Lowering& node, size_t index) const {
    return node.writer().reshape(node.converted(index, dtype), sizes);
  }
  // One number for each channel, or for each group, everywhere.
  Hlo by_channel(const Lowering& node, size_t index) const {
    return node.writer().broadcast(node.writer().reshape(node.converted(index, dtype), {sizes[1], sizes[2]}), sizes,
                                   {{1, 2}});
  }
  Hlo by_group(HloWriter& writer, const Hlo& x) const {
    return writer.broadcast(writer.reshape(x, {sizes[0], sizes[1]}), sizes, {{0, 1}});
  }
  Hlo mean(HloWriter& writer, const Hlo& x) const {
    const Hlo total = sum_over(writer, x, {{2, 3}});
    return writer.binary("divide", total, constant_like(writer, static_cast<double>(sizes[2] * sizes[3]), total));
  }
};

std::vector<Hlo> group_norm(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Groups groups(node, 3);
  const Hlo x = groups.grouped(node, 0), mean = groups.mean(writer, x);
  const Hlo centered = writer.binary("subtract", x, groups.by_group(writer, mean));
  const Hlo variance = groups.mean(writer, writer.binary("multiply", centered, centered));
  const Hlo rstd = writer.unary("rsqrt", writer.binary("add", variance, node.filled(node.number(7), variance)));
  Hlo y = writer.binary("multiply", centered, groups.by_group(writer, rstd));
  if (node.has_tensor(1)) y = writer.binary("multiply", y, groups.by_channel(node, 1));
  if (node.has_tensor(2)) y = writer.binary("add", y, groups.by_channel(node, 2));
  return {writer.convert(writer.reshape(y, node.sizes()), node.dtype()), writer.convert(mean, node.dtype(1)),
          writer.convert(rstd, node.dtype(2))};
}

std::vector<Hlo> group_norm_backward(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Groups groups(node, 5);
  const Hlo gradient = groups.grouped(node, 0), x = groups.grouped(node, 1);
  const Hlo rstd = groups.by_group(writer, node.converted(3, groups.dtype));
  const Hlo centered = writer.binary("subtract", x, groups.by_group(writer, node.converted(2, groups.dtype)));
  const Hlo normal = writer.binary("multiply", centered, rstd);
  const Hlo along = writer.binary("multiply", gradient, normal);
  const auto finish = [&](const Hlo& result, size_t index) {
    return writer.convert(writer.reshape(result, node.sizes(index)), node.dtype(index));
  };
  std::vector<Hlo> results(3);
  if (node.has_result(0)) {
    const auto scaled = [&](const Hlo& value) {
      return node.has_tensor(4) ? writer.binary("multiply", value, groups.by_channel(node, 4)) : value;
    };
    const Hlo average = groups.by_group(writer, groups.mean(writer, scaled(gradient)));
    const Hlo slope = groups.by_group(writer, groups.mean(writer, scaled(along)));
    const Hlo rest = writer.binary("subtract", scaled(gradient), average);
    const Hlo change = writer.binary("subtract", rest, writer.binary("multiply", normal, slope));
    results[0] = finish(writer.binary("multiply", change, rstd), 0);
  }
  if (node.has_result(1)) results[1] = finish(sum_over(writer, along, {{0, 3}}), 1);
  if (node.has_result(2)) results[2] = finish(sum_over(writer, gradient, {{0, 3}}), 2);
  return results;
}
bool has_positions(const Lowering& node, size_t batch) {
  return node.integer(batch) * node.integer(batch + 1) * node.integer(batch + 2) != 0;
}
bool has_group_elements(const Lowering& node) { return has_positions(node, 3); }
bool has_group_elements_backward(const Lowering& node) { return has_positions(node, 5); }

// Rows whose elements are all -inf become zeros.
std::vector<Hlo> safe_softmax(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = writer.convert(node.converted(0, node.dtype()), Lowering::wide(node.dtype()));
  std::vector<int64_t> dims;
  if (x.dim() > 0) dims.push_back(Lowering::wrap(node.integer(1), x.dim()));
  const Hlo largest = extremum_over(writer, "maximum", x, dims);
  const Hlo e = writer.unary("exponential", writer.binary("subtract", x, spread_back(writer, largest, x, dims)));
  const Hlo y = writer.binary("divide", e, spread_back(writer, sum_over(writer, e, dims), x, dims));
  const Hlo is_masked = writer.compare("EQ", largest, node.filled(lowest_of(x.dtype), largest));
  return {writer.convert(writer.select(spread_back(writer, is_masked, x, dims), node.filled(0, y), y), node.dtype())};
}

constexpr LoweringRow kNormalizationRows[] = {
    {"aten.native_group_norm", group_norm, has_group_elements},
    {"aten.native_group_norm_backward", group_norm_backward, has_group_elements_backward},
    {"aten._safe_softmax", safe_softmax},
};

}  // namespace

std::span<const LoweringRow> normalization_lowerings() { return kNormalizationRows; }

}  // namespace diptych::detail
