#include "diptych/native/lower/node_arguments.h"

#include <ATen/Dispatch_v2.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/ScalarTypeToTypeMeta.h>
#include <c10/util/TypeCast.h>

#include <algorithm>

#include "diptych/graph/argument_values.h"
#include "diptych/native/kernel/dtypes.h"

namespace diptych::detail {
namespace {

constexpr auto kUndefined = at::ScalarType::Undefined;

at::ScalarType promote(at::ScalarType a, at::ScalarType b) {
  if (a == kUndefined) return b;
  return b == kUndefined ? a : c10::promoteTypes(a, b);
}

// Of two dtypes of different rank in ATen's promotion, the lower one counts only where its kind is higher.
at::ScalarType combine(at::ScalarType higher, at::ScalarType lower) {
  if (higher == kUndefined) return lower;
  if (lower == kUndefined || at::isComplexType(higher)) return higher;
  if (at::isFloatingType(higher)) return at::isComplexType(lower) ? at::toComplexType(higher) : higher;
  const bool is_higher_kind = at::isFloatingType(lower) || at::isComplexType(lower);
  return higher == at::kBool || is_higher_kind ? c10::promoteTypes(higher, lower) : higher;
}

at::ScalarType dtype_of(const at::Scalar& number) {
  const auto inexact = at::typeMetaToScalarType(at::get_default_dtype());
  if (number.isComplex()) return at::toComplexType(inexact);
  return number.isFloatingPoint() ? inexact : number.type();
}

// Whether ATen converts a number to the dtype; true and false are taken for numbers by some operators alone.
bool holds(at::ScalarType dtype, const at::Scalar& number) {
  if (dtype == at::kBool) return true;
  if (number.isBoolean()) return false;
  return AT_DISPATCH_V2(dtype, "holds", AT_WRAP([&] {
                          if (number.isComplex()) return !c10::overflows<scalar_t>(number.toComplexDouble());
                          return number.isFloatingPoint() ? !c10::overflows<scalar_t>(number.toDouble())
                                                          : !c10::overflows<scalar_t>(number.toLong());
                        }),
                        at::kHalf, at::kBFloat16, AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX));
}

// Whether it holds what follows from sizes, whatever these are.
bool holds_any_size(at::ScalarType dtype) { return has_dtype(kWidest | kFloats | dtype_bit(at::kBFloat16), dtype); }

}  // namespace

bool NodeArguments::has_value(size_t index) const {
  if (index >= node_.operands.size()) return false;
  const auto* value = std::get_if<Value>(&node_.operands[index]);
  return value != nullptr && *value;
}

at::ScalarType NodeArguments::operand_dtype(size_t index) const {
  const bool is_given = index < node_.operands.size();
  if (is_given && std::holds_alternative<SizeNumber>(node_.operands[index])) return dtype_of(0.0);
  return has_value(index) ? meta(index).dtype : dtype_of(scalar(index));
}

at::ScalarType NodeArguments::common_dtype(std::initializer_list<size_t> indices) const {
  auto with_dims = kUndefined, without_dims = kUndefined, numbers = kUndefined;
  for (const size_t index : indices) {
    const bool is_tensor = has_value(index);
    auto& kind = !is_tensor ? numbers : meta(index).sizes.empty() ? without_dims : with_dims;
    kind = promote(kind, operand_dtype(index));
  }
  return combine(with_dims, combine(without_dims, numbers));
}

c10::IValue NodeArguments::constant(size_t index) const {
  if (index >= node_.operands.size()) return {};
  if (const auto* wrapped = std::get_if<WrappedNumber>(&node_.operands[index])) return wrapped->number;
  const auto* value = std::get_if<c10::IValue>(&node_.operands[index]);
  return value == nullptr ? c10::IValue() : *value;
}

bool NodeArguments::has_complex() const {
  bool any = false;
  const auto see = [&](Value value) { any = any || has_dtype(kComplexes, graph_.meta(value).dtype); };
  for_each_operand_value(node_, see);
  for (const Value output : node_.outputs) {
    if (output) see(output);
  }
  return any || std::any_of(node_.operands.begin(), node_.operands.end(), [](const Operand& operand) {
           const auto* wrapped = std::get_if<WrappedNumber>(&operand);
           const auto* constant = std::get_if<c10::IValue>(&operand);
           return (wrapped && wrapped->number.isComplex()) || (constant && constant->isComplexDouble());
         });
}

bool NodeArguments::has_plain_constants(uint32_t sizes) const {
  for (size_t i = 0; i < node_.operands.size(); ++i) {
    const Operand& operand = node_.operands[i];
    const bool is_size = std::holds_alternative<SizeExpr>(operand) || std::holds_alternative<Sizes>(operand) ||
                         std::holds_alternative<SizeNumber>(operand);
    if (is_size && (sizes >> i & 1) == 0) return false;
  }
  return true;
}

bool NodeArguments::holds_numbers() const {
  if (!has_result(0)) return true;
  const auto& parameters = node_.op.handle().schema().arguments();
  for (size_t i = 0; i < node_.operands.size(); ++i) {
    const auto& type = parameters[i].type();
    const auto optional = type->castRaw<c10::OptionalType>();
    if ((optional ? optional->getElementType() : type)->kind() != c10::TypeKind::NumberType) continue;
    const Operand& operand = node_.operands[i];
    const auto* constant = std::get_if<c10::IValue>(&operand);
    if (!constant && !holds_any_size(dtype())) return false;
    if (constant && constant->isScalar() && !holds(dtype(), constant->toScalar())) return false;
  }
  return true;
}

bool NodeArguments::is_number(size_t index) const { return constant(index).isScalar(); }

bool NodeArguments::is_given(size_t index) const { return has_value(index) || !constant(index).isNone(); }

at::Scalar NodeArguments::scalar(size_t index, const at::Scalar& otherwise) const {
  const auto value = constant(index);
  return value.isNone() ? otherwise : value.toScalar();
}

double NodeArguments::number(size_t index, double otherwise) const { return scalar(index, otherwise).to<double>(); }

int64_t NodeArguments::integer(size_t index, int64_t otherwise) const { return scalar(index, otherwise).to<int64_t>(); }

bool NodeArguments::flag(size_t index, bool otherwise) const {
  const auto value = constant(index);
  return value.isNone() ? otherwise : value.toBool();
}

std::vector<int64_t> NodeArguments::integers(size_t index) const { return integers_of(constant(index)); }

std::string NodeArguments::text(size_t index, std::string otherwise) const {
  const auto value = constant(index);
  return value.isNone() ? std::move(otherwise) : value.toStringRef();
}

}  // namespace diptych::detail
