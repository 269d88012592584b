#include "diptych/backends/xla/hlo_writer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "diptych/backends/xla/element_types.h"
#include "diptych/base/error.h"

namespace diptych::detail {
namespace {

// MLIR reads infinities and NaN as bits alone.
std::string special_text(double number, at::ScalarType dtype) {
  if (dtype == at::kDouble || dtype == at::kComplexDouble)
    return fmt::format("0x{:016X}", std::bit_cast<uint64_t>(number));
  const auto single = static_cast<float>(number);
  if (dtype == at::kHalf) return fmt::format("0x{:04X}", c10::Half(single).x);
  if (dtype == at::kBFloat16) return fmt::format("0x{:04X}", c10::BFloat16(single).x);
  return fmt::format("0x{:08X}", std::bit_cast<uint32_t>(single));
}

std::string float_text(double number, at::ScalarType dtype) {
  const bool is_narrow = dtype != at::kDouble && dtype != at::kComplexDouble;
  const bool overflows = is_narrow && std::isinf(static_cast<float>(number));
  const bool is_half_overflow =
      dtype == at::kHalf && std::isinf(static_cast<float>(c10::Half(static_cast<float>(number))));
  return std::isfinite(number) && !overflows && !is_half_overflow ? fmt::format("{:.17e}", number)
                                                                  : special_text(number, dtype);
}

std::string element_text(const at::Scalar& value, at::ScalarType dtype) {
  if (dtype == at::kBool) return value.to<bool>() ? "true" : "false";
  // Numbers wrap, as they do in ATen.
  if (dtype == at::kByte) return fmt::format("{}", static_cast<int>(static_cast<uint8_t>(value.to<int64_t>())));
  if (dtype == at::kChar) return fmt::format("{}", static_cast<int>(static_cast<int8_t>(value.to<int64_t>())));
  if (dtype == at::kShort) return fmt::format("{}", static_cast<int16_t>(value.to<int64_t>()));
  if (dtype == at::kInt) return fmt::format("{}", static_cast<int32_t>(value.to<int64_t>()));
  if (dtype == at::kLong) return fmt::format("{}", value.to<int64_t>());
  if (!at::isComplexType(dtype)) return float_text(value.to<double>(), dtype);
  const auto number = value.to<c10::complex<double>>();
  return fmt::format("({}, {})", float_text(number.real(), dtype), float_text(number.imag(), dtype));
}

std::string array(at::IntArrayRef values) {
  return values.empty() ? "array<i64>" : fmt::format("array<i64: {}>", fmt::join(values, ", "));
}

std::string pairs(const std::vector<std::pair<int64_t, int64_t>>& values) {
  std::vector<std::string> rows;
  for (const auto& [low, high] : values) rows.push_back(fmt::format("[{}, {}]", low, high));
  return fmt::format("dense<[{}]> : tensor<{}x2xi64>", fmt::join(rows, ", "), values.size());
}

std::string names(std::span<const Hlo> values) {
  std::vector<std::string_view> list;
  for (const Hlo& value : values) list.push_back(value.name);
  return fmt::format("{}", fmt::join(list, ", "));
}

std::string types(std::span<const Hlo> values) {
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

int64_t windows(int64_t size, int64_t window, int64_t stride) {
  return size < window ? 0 : (size - window) / stride + 1;
}

}  // namespace

bool has_hlo_type(at::ScalarType dtype) { return find_element_type(dtype) != nullptr; }

std::string hlo_type(at::ScalarType dtype, at::IntArrayRef sizes) {
  std::string text = "tensor<";
  for (const int64_t size : sizes) text += fmt::format("{}x", size);
  text += element_type(dtype).name;
  return text + ">";
}

std::string hlo_type(const Hlo& value) { return hlo_type(value.dtype, value.sizes); }

std::string hlo_list(at::IntArrayRef values) { return fmt::format("[{}]", fmt::join(values, ", ")); }

Hlo HloWriter::define(at::ScalarType dtype, std::vector<int64_t> sizes) {
  return {fmt::format("%{}", next_++), dtype, std::move(sizes)};
}

Hlo HloWriter::argument(size_t index, at::ScalarType dtype, std::vector<int64_t> sizes) {
  return {fmt::format("%arg{}", index), dtype, std::move(sizes)};
}

void HloWriter::line(std::string_view text) {
  text_ += "    ";
  text_ += text;
  text_ += '\n';
}

void HloWriter::statement(const Hlo& result, std::string_view text) {
  line(fmt::format("{} = {}{}", result.name, text, location_));
}

void HloWriter::set_location(const std::string& node) { location_ = fmt::format(" loc(\"{}\")", node); }

Hlo HloWriter::constant(const at::Scalar& value, at::ScalarType dtype, std::vector<int64_t> sizes) {
  const Hlo result = define(dtype, std::move(sizes));
  statement(result, fmt::format("stablehlo.constant dense<{}> : {}", element_text(value, dtype), hlo_type(result)));
  return result;
}

Hlo HloWriter::constant_list(at::IntArrayRef values, at::ScalarType dtype) {
  const Hlo result = define(dtype, {static_cast<int64_t>(values.size())});
  statement(result, fmt::format("stablehlo.constant dense<{}> : {}", hlo_list(values), hlo_type(result)));
  return result;
}

Hlo HloWriter::iota(at::ScalarType dtype, std::vector<int64_t> sizes, int64_t dim) {
  const Hlo result = define(dtype, std::move(sizes));
  statement(result, fmt::format("stablehlo.iota dim = {} : {}", dim, hlo_type(result)));
  return result;
}

Hlo HloWriter::unary(std::string_view operation, const Hlo& x) {
  const Hlo result = define(x.dtype, x.sizes);
  statement(result, fmt::format("stablehlo.{} {} : {}", operation, x.name, hlo_type(x)));
  return result;
}

Hlo HloWriter::chlo(std::string_view operation, const Hlo& x) {
  const Hlo result = define(x.dtype, x.sizes);
  statement(result, fmt::format("chlo.{} {} : {} -> {}", operation, x.name, hlo_type(x), hlo_type(x)));
  return result;
}

Hlo HloWriter::binary(std::string_view operation, const Hlo& x, const Hlo& y) {
  DIPTYCH_ASSERT(x.dtype == y.dtype && x.sizes == y.sizes, "stablehlo.{} of {} and {}", operation, hlo_type(x),
                 hlo_type(y));
  const Hlo result = define(x.dtype, x.sizes);
  statement(result, fmt::format("stablehlo.{} {}, {} : {}", operation, x.name, y.name, hlo_type(x)));
  return result;
}

Hlo HloWriter::is_finite(const Hlo& x) {
  const Hlo result = define(at::kBool, x.sizes);
  statement(result, fmt::format("stablehlo.is_finite {} : ({}) -> {}", x.name, hlo_type(x), hlo_type(result)));
  return result;
}

Hlo HloWriter::complex_part(std::string_view operation, const Hlo& x) {
  const Hlo result = define(at::toRealValueType(x.dtype), x.sizes);
  statement(result, fmt::format("stablehlo.{} {} : ({}) -> {}", operation, x.name, hlo_type(x), hlo_type(result)));
  return result;
}

Hlo HloWriter::compare(std::string_view direction, const Hlo& x, const Hlo& y) {
  DIPTYCH_ASSERT(x.dtype == y.dtype && x.sizes == y.sizes, "comparison of {} and {}", hlo_type(x), hlo_type(y));
  const Hlo result = define(at::kBool, x.sizes);
  // Told no kind, the plugin folds comparisons of whole constants as if they had no sign.
  const bool is_whole = at::isIntegralType(x.dtype, true), has_sign = x.dtype != at::kByte && x.dtype != at::kBool;
  const char* const kind = !is_whole ? "FLOAT" : has_sign ? "SIGNED" : "UNSIGNED";
  statement(result, fmt::format("stablehlo.compare {}, {}, {}, {} : ({}, {}) -> {}", direction, x.name, y.name, kind,
                                hlo_type(x), hlo_type(y), hlo_type(result)));
  return result;
}

Hlo HloWriter::select(const Hlo& condition, const Hlo& x, const Hlo& y) {
  const Hlo result = define(x.dtype, x.sizes);
  statement(result, fmt::format("stablehlo.select {}, {}, {} : {}, {}", condition.name, x.name, y.name,
                                hlo_type(condition), hlo_type(x)));
  return result;
}

Hlo HloWriter::convert(const Hlo& x, at::ScalarType dtype) {
  if (x.dtype == dtype) return x;
  if (dtype == at::kBool) return compare("NE", x, constant(0, x.dtype, x.sizes));
  if (at::isComplexType(x.dtype) && !at::isComplexType(dtype)) return convert(complex_part("real", x), dtype);
  // Floats become narrow whole numbers by way of wide ones, so that those out of range wrap: -1.0 is 255 as a byte.
  const bool is_narrow = at::isIntegralType(dtype, false) && c10::elementSize(dtype) < 4;
  if (is_narrow && at::isFloatingType(x.dtype)) return convert(convert(x, at::kLong), dtype);
  const Hlo result = define(dtype, x.sizes);
  statement(result, fmt::format("stablehlo.convert {} : ({}) -> {}", x.name, hlo_type(x), hlo_type(result)));
  return result;
}

Hlo HloWriter::broadcast(const Hlo& x, std::vector<int64_t> sizes, at::IntArrayRef dims) {
  const Hlo result = define(x.dtype, std::move(sizes));
  statement(result, fmt::format("stablehlo.broadcast_in_dim {}, dims = {} : ({}) -> {}", x.name, hlo_list(dims),
                                hlo_type(x), hlo_type(result)));
  return result;
}

Hlo HloWriter::broadcast_to(const Hlo& x, const std::vector<int64_t>& sizes) {
  if (x.sizes == sizes) return x;
  const auto rank = static_cast<int64_t>(sizes.size());
  return broadcast(x, sizes, counted(rank - x.dim(), rank));
}

Hlo HloWriter::reshape(const Hlo& x, std::vector<int64_t> sizes) {
  if (x.sizes == sizes) return x;
  const Hlo result = define(x.dtype, std::move(sizes));
  statement(result, fmt::format("stablehlo.reshape {} : ({}) -> {}", x.name, hlo_type(x), hlo_type(result)));
  return result;
}

Hlo HloWriter::transpose(const Hlo& x, at::IntArrayRef order) {
  if (order == at::IntArrayRef(counted(0, x.dim()))) return x;
  std::vector<int64_t> sizes;
  for (const int64_t dim : order) sizes.push_back(x.sizes.at(dim));
  const Hlo result = define(x.dtype, std::move(sizes));
  statement(result, fmt::format("stablehlo.transpose {}, dims = {} : ({}) -> {}", x.name, hlo_list(order), hlo_type(x),
                                hlo_type(result)));
  return result;
}

Hlo HloWriter::reverse(const Hlo& x, at::IntArrayRef dims) {
  const Hlo result = define(x.dtype, x.sizes);
  statement(result, fmt::format("stablehlo.reverse {}, dims = {} : {}", x.name, hlo_list(dims), hlo_type(x)));
  return result;
}

Hlo HloWriter::slice(const Hlo& x, at::IntArrayRef begin, at::IntArrayRef end, at::IntArrayRef step) {
  std::vector<int64_t> sizes;
  std::vector<std::string> ranges;
  for (size_t i = 0; i < x.sizes.size(); ++i) {
    sizes.push_back(end[i] <= begin[i] ? 0 : (end[i] - begin[i] + step[i] - 1) / step[i]);
    ranges.push_back(fmt::format("{}:{}:{}", begin[i], std::max(begin[i], end[i]), step[i]));
  }
  if (sizes == x.sizes) return x;
  const Hlo result = define(x.dtype, std::move(sizes));
  statement(result, fmt::format("stablehlo.slice {} [{}] : ({}) -> {}", x.name, fmt::join(ranges, ", "), hlo_type(x),
                                hlo_type(result)));
  return result;
}

Hlo HloWriter::pad(const Hlo& x, const Hlo& value, at::IntArrayRef low, at::IntArrayRef high,
                   at::IntArrayRef interior) {
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < x.sizes.size(); ++i) {
    sizes.push_back(x.sizes[i] + low[i] + high[i] + std::max<int64_t>(x.sizes[i] - 1, 0) * interior[i]);
  }
  const Hlo result = define(x.dtype, std::move(sizes));
  statement(result, fmt::format("stablehlo.pad {}, {}, low = {}, high = {}, interior = {} : ({}, {}) -> {}", x.name,
                                value.name, hlo_list(low), hlo_list(high), hlo_list(interior), hlo_type(x),
                                hlo_type(value), hlo_type(result)));
  return result;
}

Hlo HloWriter::concatenate(const std::vector<Hlo>& parts, int64_t dim) {
  if (parts.size() == 1) return parts[0];
  auto sizes = parts.at(0).sizes;
  sizes.at(dim) = 0;
  for (const Hlo& part : parts) sizes[dim] += part.sizes.at(dim);
  const Hlo result = define(parts[0].dtype, std::move(sizes));
  statement(result, fmt::format("stablehlo.concatenate {}, dim = {} : ({}) -> {}", names(parts), dim, types(parts),
                                hlo_type(result)));
  return result;
}

Hlo HloWriter::dynamic_slice(const Hlo& x, const std::vector<Hlo>& starts, at::IntArrayRef sizes) {
  const Hlo result = define(x.dtype, sizes.vec());
  const std::string comma = starts.empty() ? "" : ", ";
  statement(result, fmt::format("stablehlo.dynamic_slice {}{}{}, sizes = {} : ({}{}{}) -> {}", x.name, comma,
                                names(starts), hlo_list(sizes), hlo_type(x), comma, types(starts), hlo_type(result)));
  return result;
}

Hlo HloWriter::dynamic_update_slice(const Hlo& x, const Hlo& update, const std::vector<Hlo>& starts) {
  const Hlo result = define(x.dtype, x.sizes);
  const std::string comma = starts.empty() ? "" : ", ";
  statement(result,
            fmt::format("stablehlo.dynamic_update_slice {}, {}{}{} : ({}, {}{}{}) -> {}", x.name, update.name, comma,
                        names(starts), hlo_type(x), hlo_type(update), comma, types(starts), hlo_type(result)));
  return result;
}

std::vector<Hlo> HloWriter::generic(std::string_view operation, const std::vector<Hlo>& operands,
                                    const std::vector<Hlo>& results, std::string_view attributes,
                                    const std::vector<Region>& regions) {
  const size_t id = next_++;
  const bool is_one = results.size() == 1;
  std::vector<Hlo> outputs;
  for (size_t i = 0; i < results.size(); ++i) {
    outputs.push_back(
        {is_one ? fmt::format("%{}", id) : fmt::format("%{}#{}", id, i), results[i].dtype, results[i].sizes});
  }
  const std::string defined = results.empty() ? ""
                              : is_one        ? fmt::format("%{} = ", id)
                                              : fmt::format("%{}:{} = ", id, results.size());
  text_ += fmt::format("    {}\"stablehlo.{}\"({})", defined, operation, names(operands));
  if (!attributes.empty()) text_ += fmt::format(" <{{{}}}>", attributes);
  for (size_t i = 0; i < regions.size(); ++i) write_region(regions[i], i == 0 ? " ({" : ", {");
  if (!regions.empty()) text_ += ")";
  text_ += fmt::format(" : ({}) -> ({}){}\n", types(operands), types(outputs), location_);
  return outputs;
}

void HloWriter::write_region(const Region& region, std::string_view opening) {
  std::vector<Hlo> arguments;
  std::vector<std::string> declared;
  for (const Hlo& type : region.arguments) {
    arguments.push_back(define(type.dtype, type.sizes));
    declared.push_back(fmt::format("{}: {}", arguments.back().name, hlo_type(type)));
  }
  text_ += fmt::format("{}\n", opening);
  if (!declared.empty()) text_ += fmt::format("    ^bb0({}):\n", fmt::join(declared, ", "));
  const auto results = region.body(*this, arguments);
  line(fmt::format("stablehlo.return {} : {}", names(results), types(results)));
  text_ += "    }";
}

Hlo HloWriter::reduce(std::string_view operation, const Hlo& x, const Hlo& initial, at::IntArrayRef dims) {
  return reduce({x}, {initial}, dims, combine_with(operation))[0];
}

std::vector<Hlo> HloWriter::reduce(const std::vector<Hlo>& xs, const std::vector<Hlo>& initials, at::IntArrayRef dims,
                                   const Body& body) {
  auto operands = xs;
  operands.insert(operands.end(), initials.begin(), initials.end());
  std::vector<Hlo> results, scalars;
  for (const Hlo& x : xs) results.push_back({"", x.dtype, without(x.sizes, dims)});
  for (const Hlo& operand : operands) scalars.push_back({"", operand.dtype, {}});
  return generic("reduce", operands, results, fmt::format("dimensions = {}", array(dims)), {{scalars, body}});
}

HloWriter::Body HloWriter::combine_with(std::string_view operation) {
  return [operation = std::string(operation)](HloWriter& writer, std::span<const Hlo> arguments) -> std::vector<Hlo> {
    if (operation.empty()) return {arguments[1]};
    return {writer.binary(operation, arguments[0], arguments[1])};
  };
}

Hlo HloWriter::reduce_window(std::string_view operation, const Hlo& x, const Hlo& initial, const ReduceWindow& window) {
  Hlo result{"", x.dtype, {}};
  for (size_t i = 0; i < x.sizes.size(); ++i) {
    const int64_t size = x.sizes[i] + window.padding[i].first + window.padding[i].second;
    result.sizes.push_back(windows(size, (window.sizes[i] - 1) * window.dilation[i] + 1, window.stride[i]));
  }
  const auto attributes = fmt::format(
      "window_dimensions = {}, window_strides = {}, base_dilations = {}, window_dilations = {}, padding = {}",
      array(window.sizes), array(window.stride), array(std::vector<int64_t>(x.sizes.size(), 1)), array(window.dilation),
      pairs(window.padding));
  const Hlo scalar{"", x.dtype, {}};
  return generic("reduce_window", {x, initial}, {result}, attributes, {{{scalar, scalar}, combine_with(operation)}})[0];
}

Hlo HloWriter::dot_general(const Hlo& x, const Hlo& y, const DotDimensions& dims, at::ScalarType dtype) {
  Hlo result = define(dtype, {});
  for (const int64_t dim : dims.left_batch) result.sizes.push_back(x.sizes.at(dim));
  auto left = dims.left_batch, right = dims.right_batch;
  left.insert(left.end(), dims.left_contracted.begin(), dims.left_contracted.end());
  right.insert(right.end(), dims.right_contracted.begin(), dims.right_contracted.end());
  for (const int64_t size : without(x.sizes, left)) result.sizes.push_back(size);
  for (const int64_t size : without(y.sizes, right)) result.sizes.push_back(size);
  const auto batch = dims.left_batch.empty() ? std::string()
                                             : fmt::format(" batching_dims = {} x {},", hlo_list(dims.left_batch),
                                                           hlo_list(dims.right_batch));
  statement(result, fmt::format("stablehlo.dot_general {}, {},{} contracting_dims = {} x {} : ({}, {}) -> {}", x.name,
                                y.name, batch, hlo_list(dims.left_contracted), hlo_list(dims.right_contracted),
                                hlo_type(x), hlo_type(y), hlo_type(result)));
  return result;
}

Hlo HloWriter::convolution(const Hlo& x, const Hlo& kernel, const ConvolutionWindow& window) {
  const size_t spatial = window.stride.size();
  Hlo result{"", x.dtype, {x.sizes[0] / window.batch_groups, kernel.sizes[0]}};
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t dilated = x.sizes[i + 2] == 0 ? 0 : (x.sizes[i + 2] - 1) * window.input_dilation[i] + 1;
    const int64_t size = dilated + window.padding[i].first + window.padding[i].second;
    result.sizes.push_back(windows(size, (kernel.sizes[i + 2] - 1) * window.dilation[i] + 1, window.stride[i]));
  }
  const auto positions = fmt::format("{}", fmt::join(counted(0, static_cast<int64_t>(spatial)), ", "));
  const auto attributes = fmt::format(
      "dimension_numbers = #stablehlo.conv<[b, f, {0}]x[o, i, {0}]->[b, f, {0}]>, feature_group_count = {1} : i64, "
      "batch_group_count = {2} : i64, window_strides = {3}, padding = {4}, lhs_dilation = {5}, rhs_dilation = {6}",
      positions, window.feature_groups, window.batch_groups, array(window.stride), pairs(window.padding),
      array(window.input_dilation), array(window.dilation));
  return generic("convolution", {x, kernel}, {result}, attributes)[0];
}

std::vector<Hlo> HloWriter::sort(const std::vector<Hlo>& xs, int64_t dim, const Body& body) {
  std::vector<Hlo> scalars;
  for (const Hlo& x : xs) scalars.insert(scalars.end(), 2, Hlo{"", x.dtype, {}});
  return generic("sort", xs, xs, fmt::format("dimension = {} : i64, is_stable = true", dim), {{scalars, body}});
}

Hlo HloWriter::take(const Hlo& x, const Hlo& indices, int64_t dim) {
  Hlo result{"", x.dtype, {x.sizes.begin(), x.sizes.begin() + dim}};
  result.sizes.insert(result.sizes.end(), indices.sizes.begin(), indices.sizes.end());
  result.sizes.insert(result.sizes.end(), x.sizes.begin() + dim + 1, x.sizes.end());
  auto offsets = counted(0, dim), after = counted(dim + indices.dim(), result.dim());
  offsets.insert(offsets.end(), after.begin(), after.end());
  auto slice = x.sizes;
  slice[dim] = 1;
  const auto attributes = fmt::format(
      "dimension_numbers = #stablehlo.gather<offset_dims = {}, collapsed_slice_dims = [{}], start_index_map = [{}], "
      "index_vector_dim = {}>, slice_sizes = {}",
      hlo_list(offsets), dim, dim, indices.dim(), array(slice));
  return generic("gather", {x, indices}, {result}, attributes)[0];
}

Hlo HloWriter::gather_elements(const Hlo& x, const Hlo& coordinates) {
  const Hlo result{"", x.dtype, {coordinates.sizes.begin(), coordinates.sizes.end() - 1}};
  const auto all = hlo_list(counted(0, x.dim()));
  const auto attributes = fmt::format(
      "dimension_numbers = #stablehlo.gather<collapsed_slice_dims = {}, start_index_map = {}, index_vector_dim = {}>, "
      "slice_sizes = {}",
      all, all, coordinates.dim() - 1, array(std::vector<int64_t>(x.sizes.size(), 1)));
  return generic("gather", {x, coordinates}, {result}, attributes)[0];
}

Hlo HloWriter::scatter_elements(std::string_view operation, const Hlo& x, const Hlo& coordinates, const Hlo& updates) {
  const auto all = hlo_list(counted(0, x.dim()));
  const auto attributes = fmt::format(
      "scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = {}, scatter_dims_to_operand_dims = {}, "
      "index_vector_dim = {}>, indices_are_sorted = false, unique_indices = false",
      all, all, coordinates.dim() - 1);
  const Hlo scalar{"", x.dtype, {}};
  return generic("scatter", {x, coordinates, updates}, {x}, attributes,
                 {{{scalar, scalar}, combine_with(operation)}})[0];
}

Hlo HloWriter::scatter_rows(std::string_view operation, const Hlo& x, const Hlo& indices, const Hlo& updates) {
  const auto attributes = fmt::format(
      "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {}, inserted_window_dims = [0], "
      "scatter_dims_to_operand_dims = [0], index_vector_dim = {}>, indices_are_sorted = false, unique_indices = false",
      hlo_list(counted(indices.dim(), updates.dim())), indices.dim());
  const Hlo scalar{"", x.dtype, {}};
  return generic("scatter", {x, indices, updates}, {x}, attributes, {{{scalar, scalar}, combine_with(operation)}})[0];
}

std::vector<Hlo> HloWriter::while_loop(const std::vector<Hlo>& state, const Body& condition, const Body& body) {
  return generic("while", state, state, "", {{state, condition}, {state, body}});
}

std::vector<Hlo> HloWriter::switch_case(const Hlo& index, const std::vector<Hlo>& results,
                                        const std::vector<Body>& branches) {
  std::vector<Region> regions;
  for (const Body& branch : branches) regions.push_back({{}, branch});
  return generic("case", {index}, results, "", regions);
}

std::vector<Hlo> HloWriter::optimization_barrier(const std::vector<Hlo>& values) {
  return values.empty() ? values : generic("optimization_barrier", values, values, "");
}

Hlo HloWriter::bitcast(const Hlo& x, at::ScalarType dtype) {
  const Hlo result = define(dtype, x.sizes);
  statement(result, fmt::format("stablehlo.bitcast_convert {} : ({}) -> {}", x.name, hlo_type(x), hlo_type(result)));
  return result;
}

Hlo HloWriter::complex(const Hlo& real, const Hlo& imaginary) {
  const Hlo result = define(at::toComplexType(real.dtype), real.sizes);
  statement(result, fmt::format("stablehlo.complex {}, {} : {}", real.name, imaginary.name, hlo_type(result)));
  return result;
}

void HloWriter::write_return(const std::vector<Hlo>& values) {
  line(values.empty() ? "return" : fmt::format("return {} : {}", names(values), types(values)));
}

}  // namespace diptych::detail
