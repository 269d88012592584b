#include "diptych/interpreter/operand_table.h"

#include <ATen/ScalarOps.h>

#include <limits>

#include "diptych/base/check.h"

namespace diptych::detail {
namespace {

constexpr int32_t kUnset = std::numeric_limits<int32_t>::min();

at::Tensor make_wrapped_number(const WrappedNumber& wrapped) {
  // Not made by an operator: a trace around this would record it as the traced function's.
  auto tensor = at::detail::scalar_tensor_static(wrapped.number, wrapped.dtype, c10::Device(at::kCPU));
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

template <class Expression>
int32_t find_or_append(std::vector<Expression>& expressions, const Expression& wanted) {
  const auto found = std::find(expressions.begin(), expressions.end(), wanted);
  const auto index = static_cast<int32_t>(found - expressions.begin());
  if (found == expressions.end()) expressions.push_back(wanted);
  return index;
}

}  // namespace

c10::IValue DynamicNumber::evaluate(const std::map<std::string, int64_t>& symbols) const {
  const auto* size = std::get_if<SizeExpr>(&expression);
  const at::Scalar number =
      size != nullptr ? at::Scalar(size->evaluate(symbols)) : std::get<SizeNumber>(expression).evaluate(symbols);
  if (!is_tensor) return number;
  return make_wrapped_number({number, number.type()});
}

OperandTable::OperandTable(const Graph& graph) : references_(graph.num_values(), kUnset), constants_(1) {
  for (size_t id = 0; id < graph.num_values(); ++id) {
    const Value value{static_cast<int32_t>(id)};
    if (graph.info(value).kind != ValueInfo::Kind::kConstant) continue;
    references_[id] = ~static_cast<int32_t>(constants_.size());
    constants_.push_back(graph.constants()[graph.info(value).index]);
  }
}

int32_t OperandTable::reference(Value value) const {
  if (!value) return -1;
  DIPTYCH_ASSERT(static_cast<size_t>(value.id) < references_.size() && references_[value.id] != kUnset,
                 "%{} is used before it is made", value.id);
  return references_[value.id];
}

void OperandTable::set_register(Value value, int32_t index) { references_[value.id] = index; }

bool OperandTable::is_tensor(const Operand& operand) {
  if (const auto* constant = std::get_if<c10::IValue>(&operand)) return constant->isNone() || constant->isTensor();
  return std::holds_alternative<Value>(operand) || std::holds_alternative<WrappedNumber>(operand);
}

int32_t OperandTable::tensor_reference(const Operand& operand) {
  if (const auto* value = std::get_if<Value>(&operand)) return reference(*value);
  at::Tensor tensor;
  if (const auto* number = std::get_if<WrappedNumber>(&operand)) {
    tensor = make_wrapped_number(*number);
  } else if (const auto& constant = std::get<c10::IValue>(operand); constant.isTensor()) {
    tensor = constant.toTensor();
  }
  if (!tensor.defined()) return -1;
  constants_.push_back(std::move(tensor));
  return ~static_cast<int32_t>(constants_.size() - 1);
}

int32_t OperandTable::dynamic_scalar(const SizeExpr& size) { return find_or_append(scalars_, size); }

int32_t OperandTable::dynamic_list(const Sizes& sizes) { return find_or_append(lists_, sizes); }

int32_t OperandTable::dynamic_number(DynamicNumber number) {
  numbers_.push_back(std::move(number));
  return static_cast<int32_t>(numbers_.size() - 1);
}

bool all_static(const Sizes& sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [](const SizeExpr& size) { return size.is_static(); });
}

}  // namespace diptych::detail
