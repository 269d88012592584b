#include "diptych/xla/hlo/hlo_writer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "diptych/base/check.h"
#include "diptych/xla/hlo/element_types.h"
#include "diptych/xla/hlo/hlo_text.h"

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

}  // namespace

bool has_hlo_type(at::ScalarType dtype) { return find_element_type(dtype) != nullptr; }

std::string hlo_type(at::ScalarType dtype, at::IntArrayRef sizes) {
  std::string text = "tensor<";
  for (const int64_t size : sizes) {
    const fmt::format_int digits(size);
    text.append(digits.data(), digits.size()) += 'x';
  }
  return text.append(element_type(dtype).name) += '>';
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
  text_.append("    ").append(result.name).append(" = ").append(text).append(location_) += '\n';
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

Hlo HloWriter::swap_dims(const Hlo& x, int64_t a, int64_t b) {
  auto order = counted(0, x.dim());
  std::swap(order.at(a), order.at(b));
  return transpose(x, order);
}

Hlo HloWriter::reverse(const Hlo& x, at::IntArrayRef dims) {
  const Hlo result = define(x.dtype, x.sizes);
  statement(result, fmt::format("stablehlo.reverse {}, dims = {} : {}", x.name, hlo_list(dims), hlo_type(x)));
  return result;
}

Hlo HloWriter::pad(const Hlo& x, const Hlo& value, at::IntArrayRef low, at::IntArrayRef high,
                   at::IntArrayRef interior) {
  // Not all emitters of XLA take less than no padding: what it takes away is cut off afterwards.
  std::vector<int64_t> before, after, begin, end, sizes;
  for (size_t i = 0; i < x.sizes.size(); ++i) {
    before.push_back(std::max<int64_t>(low[i], 0));
    after.push_back(std::max<int64_t>(high[i], 0));
    sizes.push_back(x.sizes[i] + before[i] + after[i] + std::max<int64_t>(x.sizes[i] - 1, 0) * interior[i]);
    begin.push_back(before[i] - low[i]);
    end.push_back(sizes[i] - (after[i] - high[i]));
  }
  const Hlo padded = padding(x, value, before, after, interior, sizes);
  return end == sizes && before == low ? padded : slice(padded, begin, end, std::vector<int64_t>(sizes.size(), 1));
}

Hlo HloWriter::padding(const Hlo& x, const Hlo& value, at::IntArrayRef low, at::IntArrayRef high,
                       at::IntArrayRef interior, const std::vector<int64_t>& sizes) {
  const Hlo result = define(x.dtype, sizes);
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
  statement(result, fmt::format("stablehlo.concatenate {}, dim = {} : ({}) -> {}", hlo_names(parts), dim,
                                hlo_types(parts), hlo_type(result)));
  return result;
}

Hlo HloWriter::bitcast(const Hlo& x, at::ScalarType dtype, std::vector<int64_t> sizes) {
  const Hlo result = define(dtype, std::move(sizes));
  statement(result, fmt::format("stablehlo.bitcast_convert {} : ({}) -> {}", x.name, hlo_type(x), hlo_type(result)));
  return result;
}

// The operation knows bits without a sign alone, and tensors with one.
std::vector<Hlo> HloWriter::random_bits(const Hlo& state, at::ScalarType dtype, std::vector<int64_t> sizes) {
  const Hlo next{"", at::kLong, state.sizes}, bits{"", dtype, std::move(sizes)};
  const auto unsigned_type = [](const Hlo& value) {
    std::string text = hlo_type(value);
    return text.insert(text.rfind('i'), "u");
  };
  const std::string id = fmt::format("%{}", next_++);
  const Hlo read = define(at::kLong, state.sizes);
  statement(read, fmt::format("stablehlo.bitcast_convert {} : ({}) -> {}", state.name, hlo_type(state),
                              unsigned_type(state)));
  statement({id + ":2", dtype, {}},
            fmt::format("stablehlo.rng_bit_generator {}, algorithm = THREE_FRY : ({}) -> ({}, {})", read.name,
                        unsigned_type(state), unsigned_type(next), unsigned_type(bits)));
  std::vector<Hlo> results;
  for (const Hlo* const type : {&bits, &next}) {
    results.push_back(define(type->dtype, type->sizes));
    statement(results.back(), fmt::format("stablehlo.bitcast_convert {}#{} : ({}) -> {}", id, type == &bits ? 1 : 0,
                                          unsigned_type(*type), hlo_type(*type)));
  }
  return results;
}

Hlo HloWriter::complex(const Hlo& real, const Hlo& imaginary) {
  const Hlo result = define(at::toComplexType(real.dtype), real.sizes);
  statement(result, fmt::format("stablehlo.complex {}, {} : {}", real.name, imaginary.name, hlo_type(result)));
  return result;
}

void HloWriter::write_return(const std::vector<Hlo>& values) {
  line(values.empty() ? "return" : fmt::format("return {} : {}", hlo_names(values), hlo_types(values)));
}

}  // namespace diptych::detail
