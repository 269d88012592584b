// Operations that hold regions, and those that are written in MLIR's generic form.
#include <fmt/ranges.h>

#include "diptych/xla/hlo/hlo_text.h"
#include "diptych/xla/hlo/hlo_writer.h"

namespace diptych::detail {

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
  const std::string_view dialect = operation.find('.') == std::string_view::npos ? "stablehlo." : "";
  text_ += fmt::format("    {}\"{}{}\"({})", defined, dialect, operation, hlo_names(operands));
  if (!attributes.empty()) text_ += fmt::format(" <{{{}}}>", attributes);
  for (size_t i = 0; i < regions.size(); ++i) write_region(regions[i], i == 0 ? " ({" : ", {");
  if (!regions.empty()) text_ += ")";
  text_ += fmt::format(" : ({}) -> ({}){}\n", hlo_types(operands), hlo_types(outputs), location_);
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
  line(fmt::format("stablehlo.return {} : {}", hlo_names(results), hlo_types(results)));
  text_ += "    }";
}

Hlo HloWriter::reduce(std::string_view operation, const Hlo& x, const Hlo& initial, at::IntArrayRef dims) {
  const Hlo result = define(x.dtype, without(x.sizes, dims));
  statement(
      result,
      fmt::format("stablehlo.reduce({} init: {}) applies stablehlo.{} across dimensions = {} : ({}, {}) -> {}", x.name,
                  initial.name, operation, hlo_list(dims), hlo_type(x), hlo_type(initial), hlo_type(result)));
  return result;
}

std::vector<Hlo> HloWriter::reduce(const std::vector<Hlo>& xs, const std::vector<Hlo>& initials, at::IntArrayRef dims,
                                   const Body& body) {
  auto operands = xs;
  operands.insert(operands.end(), initials.begin(), initials.end());
  std::vector<Hlo> results, scalars;
  for (const Hlo& x : xs) results.push_back({"", x.dtype, without(x.sizes, dims)});
  for (const Hlo& operand : operands) scalars.push_back({"", operand.dtype, {}});
  return generic("reduce", operands, results, fmt::format("dimensions = {}", hlo_array(dims)), {{scalars, body}});
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
    result.sizes.push_back(num_windows(size, (window.sizes[i] - 1) * window.dilation[i] + 1, window.stride[i]));
  }
  const auto attributes = fmt::format(
      "window_dimensions = {}, window_strides = {}, base_dilations = {}, window_dilations = {}, padding = {}",
      hlo_array(window.sizes), hlo_array(window.stride), hlo_array(std::vector<int64_t>(x.sizes.size(), 1)),
      hlo_array(window.dilation), hlo_pairs(window.padding));
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
    result.sizes.push_back(num_windows(size, (kernel.sizes[i + 2] - 1) * window.dilation[i] + 1, window.stride[i]));
  }
  const auto positions = fmt::format("{}", fmt::join(counted(0, static_cast<int64_t>(spatial)), ", "));
  const auto attributes = fmt::format(
      "dimension_numbers = #stablehlo.conv<[b, f, {0}]x[o, i, {0}]->[b, f, {0}]>, feature_group_count = {1} : i64, "
      "batch_group_count = {2} : i64, window_strides = {3}, padding = {4}, lhs_dilation = {5}, rhs_dilation = {6}",
      positions, window.feature_groups, window.batch_groups, hlo_array(window.stride), hlo_pairs(window.padding),
      hlo_array(window.input_dilation), hlo_array(window.dilation));
  return generic("convolution", {x, kernel}, {result}, attributes)[0];
}

std::vector<Hlo> HloWriter::sort(const std::vector<Hlo>& xs, int64_t dim, const Body& body) {
  std::vector<Hlo> scalars;
  for (const Hlo& x : xs) scalars.insert(scalars.end(), 2, Hlo{"", x.dtype, {}});
  return generic("sort", xs, xs, fmt::format("dimension = {} : i64, is_stable = true", dim), {{scalars, body}});
}

std::vector<Hlo> HloWriter::top_k(const Hlo& x, int64_t count) {
  Hlo values{"", x.dtype, x.sizes};
  values.sizes.back() = count;
  return generic("chlo.top_k", {x}, {values, {"", at::kInt, values.sizes}}, fmt::format("k = {} : i64", count));
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

}  // namespace diptych::detail
