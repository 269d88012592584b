#include "diptych/graph/operand.h"

#include <fmt/format.h>
#include <array>
#include <bit>
#include <cmath>

#include "diptych/base/error.h"
#include "diptych/graph/names.h"

namespace diptych::detail {
namespace {

OperandKind scalar_kind(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::TensorType:
      return OperandKind::kTensor;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return OperandKind::kInt;
    case c10::TypeKind::FloatType:
      return OperandKind::kFloat;
    case c10::TypeKind::BoolType:
      return OperandKind::kBool;
    case c10::TypeKind::NumberType:
      return OperandKind::kNumber;
    case c10::TypeKind::StringType:
      return OperandKind::kString;
    case c10::TypeKind::ScalarTypeType:
      return OperandKind::kDtype;
    case c10::TypeKind::LayoutType:
      return OperandKind::kLayout;
    case c10::TypeKind::MemoryFormatType:
      return OperandKind::kMemoryFormat;
    case c10::TypeKind::DeviceObjType:
      return OperandKind::kDevice;
    case c10::TypeKind::GeneratorType:
      return OperandKind::kGenerator;
    case c10::TypeKind::AnyType:  // a process group's name
      return OperandKind::kAny;
    default:
      return OperandKind::kOpaque;
  }
}

OperandKind list_kind(const c10::Type& element) {
  if (const auto* optional = element.castRaw<c10::OptionalType>()) {
    return optional->getElementType()->kind() == c10::TypeKind::TensorType ? OperandKind::kTensors
                                                                           : OperandKind::kOpaque;
  }
  switch (scalar_kind(element)) {
    case OperandKind::kTensor:
      return OperandKind::kTensors;
    case OperandKind::kInt:
      return OperandKind::kInts;
    case OperandKind::kFloat:
      return OperandKind::kFloats;
    case OperandKind::kBool:
      return OperandKind::kBools;
    case OperandKind::kNumber:
      return OperandKind::kNumbers;
    case OperandKind::kString:
      return OperandKind::kStrings;
    default:
      return OperandKind::kOpaque;
  }
}

constexpr std::array<std::string_view, 19> kKindNames{
    "anything", "Tensor", "Tensor[]", "int",   "int[]",  "float",         "float[]", "bool",      "bool[]", "Scalar",
    "Scalar[]", "str",    "str[]",    "dtype", "layout", "memory format", "device",  "generator", "None"};

}  // namespace

OperandType operand_type(const c10::Argument& argument) {
  // real_type() distinguishes a dtype from an int; type() does not.
  c10::TypePtr type = argument.real_type();
  OperandType result{OperandKind::kOpaque, false};
  if (const auto optional = type->cast<c10::OptionalType>()) {
    result.is_optional = true;
    type = optional->getElementType();
  }
  const auto list = type->cast<c10::ListType>();
  result.kind = list ? list_kind(*list->getElementType()) : scalar_kind(*type);
  return result;
}

OperandType operand_type(const Op& op, size_t index) {
  if (index >= op.schema().arguments().size()) return {};
  return operand_type(op.schema().arguments()[index]);
}

std::string describe(OperandType type) {
  const std::string name(kKindNames[static_cast<size_t>(type.kind)]);
  return type.is_optional && type.kind != OperandKind::kAny && type.kind != OperandKind::kOpaque ? name + "?" : name;
}

std::optional<Operand> default_operand(const c10::Argument& argument) {
  const auto& value = argument.default_value();
  if (!value) return std::nullopt;
  if (value->isNone() && operand_type(argument).kind == OperandKind::kTensor) return Operand(Value{});
  return Operand(*value);
}

// ---- comparing ----

namespace {

bool same_double(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b) || (std::isnan(a) && std::isnan(b));
}
bool same_complex(c10::complex<double> a, c10::complex<double> b) {
  return same_double(a.real(), b.real()) && same_double(a.imag(), b.imag());
}

bool same_constant(const c10::IValue& a, const c10::IValue& b);

bool same_list(const c10::IValue& a, const c10::IValue& b) {
  const auto left = a.toList(), right = b.toList();
  if (left.size() != right.size() || *left.elementType() != *right.elementType()) return false;
  for (size_t i = 0; i < left.size(); ++i) {
    if (!same_constant(left.get(i), right.get(i))) return false;
  }
  return true;
}

bool same_constant(const c10::IValue& a, const c10::IValue& b) {
  if (a.isDouble() && b.isDouble()) return same_double(a.toDouble(), b.toDouble());
  if (a.isComplexDouble() && b.isComplexDouble()) return same_complex(a.toComplexDouble(), b.toComplexDouble());
  if (a.isList() && b.isList()) return same_list(a, b);
  if (a.isGenerator() && b.isGenerator()) return a.toGenerator() == b.toGenerator();
  if (a.isUnsigned() || b.isUnsigned()) {
    return a.isUnsigned() && b.isUnsigned() && a.toScalar().toUInt64() == b.toScalar().toUInt64();
  }
  const bool plain = a.isNone() || a.isInt() || a.isBool() || a.isString() || a.isDevice();
  if (plain || a.tagKind() != b.tagKind()) return a.tagKind() == b.tagKind() && a == b;
  return a.is(b);
}

bool same_size(const SizeExpr& a, const SizeExpr& b) {
  return a == b && a.symbols() == b.symbols() && a.hint() == b.hint();
}

}  // namespace

bool identical(const Operand& a, const Operand& b) {
  if (a.index() != b.index()) return false;
  if (const auto* value = std::get_if<Value>(&a)) return *value == std::get<Value>(b);
  if (const auto* list = std::get_if<ValueList>(&a)) return *list == std::get<ValueList>(b);
  if (const auto* number = std::get_if<WrappedNumber>(&a)) {
    const auto& other = std::get<WrappedNumber>(b);
    return number->dtype == other.dtype && same_constant(number->number, other.number);
  }
  if (const auto* size = std::get_if<SizeExpr>(&a)) return same_size(*size, std::get<SizeExpr>(b));
  if (const auto* sizes = std::get_if<Sizes>(&a)) {
    const auto& other = std::get<Sizes>(b);
    return std::equal(sizes->begin(), sizes->end(), other.begin(), other.end(), same_size);
  }
  if (const auto* number = std::get_if<SizeNumber>(&a)) {
    const auto& other = std::get<SizeNumber>(b);
    return number->form == other.form && same_size(number->top, other.top) && same_size(number->bottom, other.bottom);
  }
  return same_constant(std::get<c10::IValue>(a), std::get<c10::IValue>(b));
}

// ---- checking ----

namespace {

bool is_number(const c10::IValue& value) {
  return value.isInt() || value.isDouble() || value.isBool() || value.isComplexDouble() || value.isUnsigned();
}

bool is_list_of(const c10::IValue& value, c10::TypeKind element) {
  return value.isList() && value.toList().elementType()->kind() == element;
}

bool fits(const c10::IValue& value, OperandKind kind) {
  switch (kind) {
    case OperandKind::kAny:
      return value.isNone() || is_number(value) || value.isString() || value.isDevice() || value.isGenerator() ||
             value.isIntList() || value.isDoubleList() || value.isBoolList() ||
             is_list_of(value, c10::TypeKind::NumberType) || is_list_of(value, c10::TypeKind::StringType);
    case OperandKind::kInt:
      return value.isInt();
    case OperandKind::kInts:
      return value.isIntList();
    case OperandKind::kFloat:
      return value.isDouble();
    case OperandKind::kFloats:
      return value.isDoubleList();
    case OperandKind::kBool:
      return value.isBool();
    case OperandKind::kBools:
      return value.isBoolList();
    case OperandKind::kNumber:
      return is_number(value);
    case OperandKind::kNumbers:
      return is_list_of(value, c10::TypeKind::NumberType);
    case OperandKind::kString:
      return value.isString();
    case OperandKind::kStrings:
      return is_list_of(value, c10::TypeKind::StringType);
    case OperandKind::kDtype:
    case OperandKind::kLayout:
    case OperandKind::kMemoryFormat:
      return value.isInt();
    case OperandKind::kDevice:
      return value.isDevice();
    case OperandKind::kGenerator:
      return value.isGenerator();
    case OperandKind::kTensor:
    case OperandKind::kTensors:
    case OperandKind::kOpaque:
      return false;
  }
  return false;
}

std::string_view alternative_name(const Operand& operand) {
  constexpr std::array<std::string_view, 7> kNames{"a tensor",        "a list of tensors", "a wrapped number", "a size",
                                                   "a list of sizes", "a constant",        "a number of sizes"};
  return kNames[operand.index()];
}

}  // namespace

std::string operand_problem(const Operand& operand, OperandType type) {
  bool fit = type.kind == OperandKind::kAny;
  std::string got(alternative_name(operand));
  if (const auto* constant = std::get_if<c10::IValue>(&operand)) {
    fit = constant->isNone() ? type.is_optional : fits(*constant, type.kind);
    got += " of type " + (constant->isList() ? constant->toList().elementType()->str() + "[]" : constant->tagKind());
  } else if (type.kind == OperandKind::kTensor) {
    fit = std::holds_alternative<Value>(operand) || std::holds_alternative<WrappedNumber>(operand) ||
          std::holds_alternative<SizeExpr>(operand) || std::holds_alternative<SizeNumber>(operand);
  } else if (type.kind == OperandKind::kTensors) {
    fit = std::holds_alternative<ValueList>(operand);
  } else if (type.kind == OperandKind::kInt) {
    fit = std::holds_alternative<SizeExpr>(operand);
  } else if (type.kind == OperandKind::kNumber) {
    fit = std::holds_alternative<SizeExpr>(operand) || std::holds_alternative<SizeNumber>(operand);
  } else if (type.kind == OperandKind::kFloat) {
    fit = std::holds_alternative<SizeNumber>(operand);
  } else if (type.kind == OperandKind::kInts) {
    fit = std::holds_alternative<Sizes>(operand);
  }
  return fit ? std::string() : fmt::format("expected {}, got {}", describe(type), got);
}

// ---- printing ----

namespace {

// The length of the valid UTF-8 sequence at the front of `text`, or 0.
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t length = byte(0) < 0x80                      ? 1
                        : byte(0) >= 0xc2 && byte(0) < 0xe0 ? 2
                        : (byte(0) & 0xf0) == 0xe0          ? 3
                        : byte(0) >= 0xf0 && byte(0) < 0xf5 ? 4
                                                            : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool overlong = (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xf0 && byte(1) < 0x90);
  const bool surrogate = byte(0) == 0xed && byte(1) >= 0xa0;
  const bool too_large = byte(0) == 0xf4 && byte(1) >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

template <class Range, class Print>
std::string joined(const Range& range, Print&& print) {
  std::string text = "[";
  for (const auto& element : range) {
    if (text.size() > 1) text += ", ";
    text += print(element);
  }
  return text + "]";
}

std::string value_text(Value value) { return value ? fmt::format("%{}", value.id) : "none"; }

std::string number_text(const c10::IValue& number) {
  if (number.isInt()) return std::to_string(number.toInt());
  if (number.isUnsigned()) return fmt::format("{}u", number.toScalar().toUInt64());
  if (number.isDouble()) return float_text(number.toDouble());
  if (number.isBool()) return number.toBool() ? "true" : "false";
  const auto complex = number.toComplexDouble();
  return fmt::format("complex({}, {})", float_text(complex.real()), float_text(complex.imag()));
}

std::string list_text(const c10::IValue& value, OperandType type) {
  const auto list = value.toList();
  const auto element = list.elementType()->kind();
  std::string text = "[";
  for (size_t i = 0; i < list.size(); ++i) {
    const c10::IValue item = list.get(i);
    text +=
        fmt::format("{}{}", i > 0 ? ", " : "", item.isString() ? quoted_text(item.toStringRef()) : number_text(item));
  }
  text += "]";
  if (type.kind != OperandKind::kAny) return text;
  switch (element) {  // for kAny, only the text says what a list holds
    case c10::TypeKind::IntType:
      return "int" + text;
    case c10::TypeKind::FloatType:
      return "float" + text;
    case c10::TypeKind::BoolType:
      return "bool" + text;
    case c10::TypeKind::NumberType:
      return "Scalar" + text;
    default:
      return "str" + text;
  }
}

std::string named_int_text(int64_t value, OperandKind kind) {
  if (kind == OperandKind::kDtype) return dtype_text(value);
  if (kind == OperandKind::kLayout) return layout_text(value);
  return memory_format_text(value);
}

std::string constant_text(const c10::IValue& value, OperandType type) {
  if (value.isNone()) return "None";
  const bool named =
      type.kind == OperandKind::kDtype || type.kind == OperandKind::kLayout || type.kind == OperandKind::kMemoryFormat;
  if (named && value.isInt()) return named_int_text(value.toInt(), type.kind);
  if (is_number(value)) return number_text(value);
  if (value.isString()) return quoted_text(value.toStringRef());
  if (value.isDevice()) return fmt::format("device({})", value.toDevice().str());
  if (value.isGenerator()) return fmt::format("generator({})", value.toGenerator().device().str());
  if (value.isList() && fits(value, OperandKind::kAny)) return list_text(value, type);
  return fmt::format("opaque({})", value.tagKind());
}

std::string size_text(const SizeExpr& size, OperandType type) {
  const bool bare = type.kind == OperandKind::kInt && !size.is_static();
  return bare ? size.str() : fmt::format("size({})", size.str());
}

std::string sizes_text(const Sizes& sizes, OperandType type) {
  bool dynamic = false;
  for (const auto& size : sizes) dynamic = dynamic || !size.is_static();
  const auto text = joined(sizes, [](const SizeExpr& size) { return size.str(); });
  return type.kind == OperandKind::kInts && dynamic ? text : "sizes" + text;
}

}  // namespace

std::string operand_text(const Operand& operand, OperandType type) {
  if (const auto* value = std::get_if<Value>(&operand)) return value_text(*value);
  if (const auto* list = std::get_if<ValueList>(&operand)) return joined(*list, value_text);
  if (const auto* number = std::get_if<WrappedNumber>(&operand)) {
    const auto text = number_text(number->number);
    if (number->dtype == number->number.type()) return fmt::format("number({})", text);
    return fmt::format("number({}, {})", text, dtype_text(static_cast<int64_t>(number->dtype)));
  }
  if (const auto* size = std::get_if<SizeExpr>(&operand)) return size_text(*size, type);
  if (const auto* sizes = std::get_if<Sizes>(&operand)) return sizes_text(*sizes, type);
  if (const auto* number = std::get_if<SizeNumber>(&operand)) return number->str();
  return constant_text(std::get<c10::IValue>(operand), type);
}

std::string quoted_text(std::string_view text) {
  std::string result = "\"";
  while (!text.empty()) {
    const char c = text[0];
    const size_t length = utf8_length(text);
    if (c == '"' || c == '\\') {
      result += {'\\', c};
    } else if (c == '\n' || c == '\t') {
      result += c == '\n' ? "\\n" : "\\t";
    } else if (length == 0 || static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      result += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return result + '"';
}

std::string float_text(double number) {
  if (std::isnan(number)) return "nan";
  std::string text = fmt::format("{}", number);
  return text.find_first_of(".en") == text.npos ? text + ".0" : text;
}

}  // namespace diptych::detail
