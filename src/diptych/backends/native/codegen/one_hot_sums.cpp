#include "diptych/backends/native/codegen/one_hot_sums.h"

#include <optional>

#include "diptych/backends/native/codegen/kernel_rewriter.h"

namespace diptych::detail {
namespace {

const KernelScalar* scalar_of(const Kernel& kernel, int32_t value, std::string_view op) {
  const auto* scalar = std::get_if<KernelScalar>(&kernel.values[value].made_by);
  return scalar != nullptr && scalar->op->name == op ? scalar : nullptr;
}

std::optional<int64_t> integer_of(const Kernel& kernel, int32_t value) {
  const auto* constant = std::get_if<KernelConstant>(&kernel.values[value].made_by);
  const auto* integer = constant == nullptr ? nullptr : std::get_if<int64_t>(&constant->number.number);
  if (integer == nullptr) return std::nullopt;
  return *integer;
}

bool is_zero(const Kernel& kernel, int32_t value) {
  const auto* constant = std::get_if<KernelConstant>(&kernel.values[value].made_by);
  if (constant == nullptr) return false;
  const auto* number = std::get_if<double>(&constant->number.number);
  return number != nullptr && *number == 0;
}

// The dim of which a value is the position itself.
std::optional<int32_t> dim_of(const Kernel& kernel, int32_t value) {
  const auto* index = std::get_if<KernelIndex>(&kernel.values[value].made_by);
  if (index == nullptr || index->map.terms().size() != 1) return std::nullopt;
  const IndexTerm& term = index->map.terms()[0];
  if (term.factor != IndexFactor::kDim || term.coefficient != SizeTerm{1}) return std::nullopt;
  return term.id;
}

struct OneHot {
  int32_t dim, position, chosen;
};

std::optional<OneHot> one_hot_of(const KernelRewriter& from, const KernelReduce& reduce, at::ScalarType dtype) {
  const Kernel& kernel = from.source();
  if (reduce.reduction->name != "sum") return std::nullopt;
  // A sum in a wider dtype would have to convert what is chosen.
  if (kernel.values[reduce.operand].dtype != dtype) return std::nullopt;
  const KernelScalar* select = scalar_of(kernel, reduce.operand, "select");
  if (select == nullptr || !is_zero(kernel, select->operands[2])) return std::nullopt;
  const KernelScalar* equal = scalar_of(kernel, select->operands[0], "eq");
  if (equal == nullptr) return std::nullopt;
  for (const int side : {0, 1}) {
    const auto dim = dim_of(kernel, equal->operands[side]);
    if (!dim || !reduce.over.contains(*dim)) continue;
    const OneHot found{*dim, equal->operands[1 - side], select->operands[1]};
    const DimSet others = from.domain(found.position) | from.domain(found.chosen);
    if (!others.contains(*dim)) return found;
  }
  return std::nullopt;
}

int32_t write_choice(KernelRewriter& to, const OneHot& one, at::ScalarType dtype) {
  const int32_t position = to[one.position];
  const int32_t begin = to.add(at::kLong, KernelConstant{{int64_t{0}}});
  const SizeTerm extent = to.source().extents[one.dim];
  const int32_t end = extent.is_constant() ? to.add(at::kLong, KernelConstant{{extent.factor}})
                                           : to.add(at::kLong, KernelIndex{IndexMap().add(offset_term(extent))});
  const int32_t from = to.scalar("ge", at::kBool, {position, begin});
  const int32_t below = to.scalar("lt", at::kBool, {position, end});
  const int32_t is_inside = to.scalar("and", at::kBool, {from, below});
  return to.scalar("select", dtype, {is_inside, to[one.chosen], to.constant(0, dtype)});
}

// The sum or product itself, where the other operand is a constant that changes nothing.
std::optional<int32_t> kept_operand(const Kernel& kernel, int32_t value) {
  for (const auto& [op, neutral] : {std::pair<std::string_view, int64_t>{"add", 0}, {"mul", 1}}) {
    const KernelScalar* scalar = scalar_of(kernel, value, op);
    if (scalar == nullptr) continue;
    for (const int side : {0, 1}) {
      if (integer_of(kernel, scalar->operands[side]) == neutral) return scalar->operands[1 - side];
    }
  }
  return std::nullopt;
}

Kernel without_neutral_operands(const Kernel& kernel) {
  KernelRewriter to(kernel);
  for (size_t i = 0; i < kernel.values.size(); ++i) {
    if (const auto kept = kept_operand(kernel, static_cast<int32_t>(i))) {
      to.map_next(to[*kept]);
    } else {
      to.copy(i);
    }
  }
  return to.finish();
}

}  // namespace

Kernel without_one_hot_sums(const Kernel& source) {
  const Kernel kernel = without_neutral_operands(source);
  KernelRewriter to(kernel);
  for (size_t i = 0; i < kernel.values.size(); ++i) {
    const KernelReduce* reduce = to.reduce_at(i);
    const auto one = reduce == nullptr ? std::nullopt : one_hot_of(to, *reduce, kernel.values[i].dtype);
    if (!one) {
      to.copy(i);
      continue;
    }
    const at::ScalarType dtype = kernel.values[i].dtype;
    const int32_t choice = write_choice(to, *one, dtype);
    const DimSet rest = reduce->over.without(DimSet::of(one->dim));
    to.map_next(rest.empty() ? choice : to.reduce("sum", dtype, choice, rest));
  }
  return to.finish();
}

}  // namespace diptych::detail
