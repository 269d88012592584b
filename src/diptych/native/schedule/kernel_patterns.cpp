#include "diptych/native/schedule/kernel_patterns.h"

#include "diptych/native/kernel/dtypes.h"
#include "diptych/native/kernel/reduction.h"
#include "diptych/native/kernel/scalar_op.h"

namespace diptych::detail {

const KernelScalar* scalar_of(const Kernel& kernel, int32_t value, std::string_view op) {
  const auto* scalar = std::get_if<KernelScalar>(&kernel.values[value].made_by);
  return scalar != nullptr && scalar->op->name == op ? scalar : nullptr;
}

bool is_zero(const Kernel& kernel, int32_t value) {
  const auto* constant = std::get_if<KernelConstant>(&kernel.values[value].made_by);
  if (constant == nullptr) return false;
  if (const auto* integer = std::get_if<int64_t>(&constant->number.number)) return *integer == 0;
  const auto* number = std::get_if<double>(&constant->number.number);
  return number != nullptr && *number == 0;
}

KernelNumber zero_of(at::ScalarType dtype) {
  return has_dtype(kFloats | kHalves, dtype) ? KernelNumber{0.0} : KernelNumber{int64_t{0}};
}

std::optional<int32_t> dim_of(const Kernel& kernel, int32_t value) {
  const auto* index = std::get_if<KernelIndex>(&kernel.values[value].made_by);
  if (index == nullptr || index->map.terms().size() != 1) return std::nullopt;
  const IndexTerm& term = index->map.terms()[0];
  if (term.factor != IndexFactor::kDim || term.coefficient != SizeTerm{1}) return std::nullopt;
  return term.id;
}

std::optional<SumOfChosen> sum_of_chosen(const Kernel& kernel, int32_t value, int side) {
  const auto* reduce = std::get_if<KernelReduce>(&kernel.values[value].made_by);
  if (reduce == nullptr || reduce->reduction->name != "sum") return std::nullopt;
  // A sum in a wider dtype would have to convert what is chosen.
  if (kernel.values[reduce->operand].dtype != kernel.values[value].dtype) return std::nullopt;
  const KernelScalar* select = scalar_of(kernel, reduce->operand, "select");
  if (select == nullptr || !is_zero(kernel, select->operands[2])) return std::nullopt;
  const KernelScalar* equal = scalar_of(kernel, select->operands[0], "eq");
  if (equal == nullptr) return std::nullopt;
  const auto dim = dim_of(kernel, equal->operands[side]);
  if (!dim) return std::nullopt;
  return SumOfChosen{*dim, equal->operands[1 - side], select->operands[1]};
}

}  // namespace diptych::detail
