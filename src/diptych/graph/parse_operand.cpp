#include "diptych/graph/parse_operand.h"

#include <fmt/format.h>
#include <charconv>

#include "diptych/base/error.h"
#include "diptych/graph/names.h"

namespace diptych::detail {
namespace {

// Reads `[a, b]` with `item` for each element.
template <class Item>
void parse_list(TextCursor& cursor, Item&& item) {
  cursor.expect("[");
  if (cursor.accept("]")) return;
  do {
    item();
  } while (cursor.accept(","));
  cursor.expect("]");
}

// Turns an error about a size or a device into one that says where in the text it is.
template <class Make>
auto located(const TextCursor& cursor, size_t start, Make&& make) {
  try {
    return make();
  } catch (const UserError& error) {
    cursor.fail_at(start, error.what());
  } catch (const c10::Error& error) {
    cursor.fail_at(start, error.what_without_backtrace());
  }
}

SizeExpr parse_size(TextCursor& cursor, std::string_view stops, const OperandScope& scope) {
  cursor.peek();
  const size_t start = cursor.position();
  const auto text = cursor.until(stops);
  if (text.empty()) cursor.fail("a size");
  return located(cursor, start, [&] { return SizeExpr::parse(text, scope.symbols); });
}

Sizes parse_sizes(TextCursor& cursor, std::string_view open, std::string_view close, const OperandScope& scope) {
  Sizes sizes;
  cursor.expect(open);
  if (cursor.accept(close)) return sizes;
  do {
    sizes.push_back(parse_size(cursor, close, scope));
  } while (cursor.accept(","));
  cursor.expect(close);
  return sizes;
}

c10::Device parse_device(TextCursor& cursor, std::string_view stops) {
  cursor.peek();
  const size_t start = cursor.position();
  const std::string text(cursor.until(stops));
  return located(cursor, start, [&] { return c10::Device(text); });
}

double parse_float(TextCursor& cursor) {
  cursor.peek();
  const auto text = cursor.until(")]");
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    cursor.set_position(cursor.position() - text.size());
    cursor.fail("a number such as 2.0");
  }
  return value;
}

bool parse_bool(TextCursor& cursor) {
  if (cursor.accept("true")) return true;
  if (!cursor.accept("false")) cursor.fail("true or false");
  return false;
}

// Reads an int, float, bool, complex number or unsigned number; its form alone tells which.
c10::IValue parse_number(TextCursor& cursor) {
  if (cursor.sees("true") || cursor.sees("false")) return parse_bool(cursor);
  if (cursor.accept("complex")) {
    cursor.expect("(");
    const double real = parse_float(cursor);
    cursor.expect(",");
    const double imaginary = parse_float(cursor);
    cursor.expect(")");
    return c10::complex<double>(real, imaginary);
  }
  cursor.peek();
  const size_t start = cursor.position();
  const auto text = cursor.until(")]");
  const char* last = text.data() + text.size();
  if (text.find_first_not_of("0123456789-") == text.npos || text.ends_with('u')) {
    int64_t value = 0;
    uint64_t large = 0;
    if (auto [end, error] = std::from_chars(text.data(), last, value); error == std::errc() && end == last)
      return value;
    auto [end, error] = std::from_chars(text.data(), last, large);
    // Scalar keeps small unsigned numbers as int64, so only large ones print with the suffix.
    if (error == std::errc() && end == last - 1 && large > INT64_MAX) return c10::IValue(at::Scalar(large));
  }
  cursor.set_position(start);
  return parse_float(cursor);
}

WrappedNumber parse_wrapped_number(TextCursor& cursor) {
  cursor.expect("(");
  WrappedNumber result;
  result.number = parse_number(cursor).toScalar();
  result.dtype = result.number.type();
  if (cursor.accept(",")) {
    const auto dtype = dtype_from_text(cursor.until(")"));
    if (!dtype || *dtype < 0 || *dtype >= static_cast<int64_t>(at::ScalarType::NumOptions))
      cursor.fail("a dtype such as f32 before this");
    result.dtype = static_cast<at::ScalarType>(*dtype);
  }
  cursor.expect(")");
  return result;
}

ValueList parse_values(TextCursor& cursor, const OperandScope& scope) {
  ValueList values;
  parse_list(cursor, [&] { values.push_back(parse_value(cursor, scope)); });
  return values;
}

c10::IValue parse_numbers(TextCursor& cursor) {
  c10::List<at::Scalar> numbers;
  parse_list(cursor, [&] { numbers.push_back(parse_number(cursor).toScalar()); });
  return numbers;
}

template <class T, class Item>
c10::IValue parse_constants(TextCursor& cursor, Item&& item) {
  c10::List<T> values;
  parse_list(cursor, [&] { values.push_back(item(cursor)); });
  return values;
}
c10::IValue parse_ints(TextCursor& cursor) {
  return parse_constants<int64_t>(cursor, [](TextCursor& c) { return c.integer(); });
}
c10::IValue parse_floats(TextCursor& cursor) { return parse_constants<double>(cursor, parse_float); }
c10::IValue parse_bools(TextCursor& cursor) { return parse_constants<bool>(cursor, parse_bool); }
c10::IValue parse_strings(TextCursor& cursor) {
  return parse_constants<std::string>(cursor, [](TextCursor& c) { return c.string(); });
}

// Reads a list of integers as a constant, or as a list of sizes if it contains a symbol.
Operand parse_ints_or_sizes(TextCursor& cursor, const OperandScope& scope) {
  const Sizes sizes = parse_sizes(cursor, "[", "]", scope);
  std::vector<int64_t> ints;
  for (const auto& size : sizes) {
    if (!size.is_static()) return sizes;
    ints.push_back(size.hint());
  }
  return c10::IValue(ints);
}

Operand parse_int_or_size(TextCursor& cursor, const OperandScope& scope) {
  const SizeExpr size = parse_size(cursor, ")", scope);
  return size.is_static() ? Operand(c10::IValue(size.hint())) : Operand(size);
}

c10::IValue parse_named_int(TextCursor& cursor, OperandKind kind) {
  cursor.peek();
  const size_t start = cursor.position();
  const auto text = cursor.until(")");
  const auto number = kind == OperandKind::kDtype    ? dtype_from_text(text)
                      : kind == OperandKind::kLayout ? layout_from_text(text)
                                                     : memory_format_from_text(text);
  if (!number) {
    cursor.set_position(start);
    cursor.fail(fmt::format("a {} such as {}", describe({kind, false}),
                            kind == OperandKind::kDtype    ? "f32"
                            : kind == OperandKind::kLayout ? "strided"
                                                           : "channels_last"));
  }
  return *number;
}

[[noreturn]] void refuse_opaque(TextCursor& cursor, std::string_view what) {
  cursor.fail_at(
      cursor.position(),
      fmt::format("got {}, which text cannot hold; pass the operand when the graph runs, or make the graph without it",
                  what));
}

SizeNumber parse_size_number(TextCursor& cursor, SizeNumber::Form form, const OperandScope& scope) {
  cursor.expect(SizeNumber::name_of(form));
  cursor.expect("(");
  const SizeExpr top = parse_size(cursor, ")", scope);
  cursor.expect(",");
  const SizeExpr bottom = parse_size(cursor, ")", scope);
  cursor.expect(")");
  return {form, top, bottom};
}

// Reads the forms that name their own kind, whatever kind the schema expects; they hold operands that the schema's own
// form cannot.
std::optional<Operand> parse_marked(TextCursor& cursor, OperandType type, const OperandScope& scope) {
  if (type.kind != OperandKind::kTensor && type.kind != OperandKind::kTensors && cursor.sees("sizes[")) {
    cursor.expect("sizes");
    return Operand(parse_sizes(cursor, "[", "]", scope));
  }
  if (cursor.sees("size(")) {
    cursor.expect("size");
    cursor.expect("(");
    const SizeExpr size = parse_size(cursor, ")", scope);
    cursor.expect(")");
    return Operand(size);
  }
  for (const auto form : {SizeNumber::Form::kQuotient, SizeNumber::Form::kRoot, SizeNumber::Form::kInverseRoot,
                          SizeNumber::Form::kLogarithm}) {
    if (cursor.sees(std::string(SizeNumber::name_of(form)) + "("))
      return Operand(parse_size_number(cursor, form, scope));
  }
  if (cursor.sees("generator(")) refuse_opaque(cursor, "a generator");
  if (cursor.sees("opaque(")) refuse_opaque(cursor, "an opaque constant");
  if (cursor.accept("None")) return Operand(c10::IValue());
  return std::nullopt;
}

// Reads an operand whose kind the text alone tells: one of type kAny, or a device.
Operand parse_any(TextCursor& cursor, const OperandScope& scope) {
  const char next = cursor.peek();
  if (next == '%' || cursor.sees("none")) return parse_value(cursor, scope);
  if (next == '[') return parse_values(cursor, scope);
  if (next == '"') return c10::IValue(cursor.string());
  const size_t start = cursor.position();
  if (cursor.accept("number")) return parse_wrapped_number(cursor);
  if (cursor.accept("int")) return parse_ints(cursor);
  if (cursor.accept("float")) return parse_floats(cursor);
  if (cursor.accept("bool")) return parse_bools(cursor);
  if (cursor.accept("Scalar")) return parse_numbers(cursor);
  if (cursor.accept("str")) return parse_strings(cursor);
  cursor.set_position(start);
  if (cursor.accept("device")) {
    cursor.expect("(");
    const auto device = parse_device(cursor, ")");
    cursor.expect(")");
    return c10::IValue(device);
  }
  return parse_number(cursor);
}

Operand parse_schema_operand(TextCursor& cursor, OperandType type, const OperandScope& scope) {
  switch (type.kind) {
    case OperandKind::kTensor:
      if (cursor.accept("number")) return parse_wrapped_number(cursor);
      return parse_value(cursor, scope);
    case OperandKind::kTensors:
      return parse_values(cursor, scope);
    case OperandKind::kInt:
      return parse_int_or_size(cursor, scope);
    case OperandKind::kInts:
      return parse_ints_or_sizes(cursor, scope);
    case OperandKind::kFloat:
      return c10::IValue(parse_float(cursor));
    case OperandKind::kFloats:
      return parse_floats(cursor);
    case OperandKind::kBool:
      return c10::IValue(parse_bool(cursor));
    case OperandKind::kBools:
      return parse_bools(cursor);
    case OperandKind::kNumber:
      return parse_number(cursor);
    case OperandKind::kNumbers:
      return parse_numbers(cursor);
    case OperandKind::kString:
      return c10::IValue(cursor.string());
    case OperandKind::kStrings:
      return parse_strings(cursor);
    case OperandKind::kDtype:
    case OperandKind::kLayout:
    case OperandKind::kMemoryFormat:
      return parse_named_int(cursor, type.kind);
    case OperandKind::kDevice:
    case OperandKind::kAny:
      return parse_any(cursor, scope);
    case OperandKind::kGenerator:
    case OperandKind::kOpaque:
      break;
  }
  cursor.fail("None");
}

}  // namespace

int32_t parse_value_number(TextCursor& cursor) {
  cursor.expect("%");
  const size_t start = cursor.position();
  const int64_t number = cursor.peek() >= '0' && cursor.peek() <= '9' ? cursor.integer() : -1;
  if (number < 0 || number > INT32_MAX) {
    cursor.set_position(start);
    cursor.fail("the number of a value");
  }
  return static_cast<int32_t>(number);
}

Value parse_value(TextCursor& cursor, const OperandScope& scope) {
  if (cursor.accept("none")) return Value{};
  if (cursor.peek() != '%') cursor.fail("a value such as %3, or none");
  const size_t start = cursor.position();
  const int32_t number = parse_value_number(cursor);
  if (!scope.is_defined(number)) {
    cursor.fail_at(start, fmt::format("got %{}, expected a value that an input or an earlier line defines", number));
  }
  return Value{number};
}

TensorMeta parse_meta(TextCursor& cursor, const OperandScope& scope) {
  cursor.peek();
  const size_t start = cursor.position();
  const auto dtype = find_dtype(cursor.name());
  if (!dtype) {
    cursor.set_position(start);
    cursor.fail("a type such as f32[2,3]");
  }
  TensorMeta meta;
  meta.dtype = *dtype;
  meta.sizes = parse_sizes(cursor, "[", "]", scope);
  if (cursor.sees("{")) {
    meta.strides = parse_sizes(cursor, "{", "}", scope);
  } else {
    meta.strides = located(cursor, start, [&] { return contiguous_strides(meta.sizes); });
  }
  if (cursor.accept("@")) meta.device = parse_device(cursor, " )]=\t\r");
  meta.requires_grad = cursor.accept("grad");
  return meta;
}

Operand parse_operand(TextCursor& cursor, OperandType type, const OperandScope& scope) {
  if (auto marked = parse_marked(cursor, type, scope)) return std::move(*marked);
  return parse_schema_operand(cursor, type, scope);
}

}  // namespace diptych::detail
