#include "diptych/backends/native/codegen/one_hot_sums.h"

#include <optional>

#include "diptych/backends/native/codegen/kernel_patterns.h"
#include "diptych/backends/native/codegen/kernel_rewriter.h"

namespace diptych::detail {
namespace {

std::optional<int64_t> integer_of(const Kernel& kernel, int32_t value) {
  const auto* constant = std::get_if<KernelConstant>(&kernel.values[value].made_by);
  const auto* integer = constant == nullptr ? nullptr : std::get_if<int64_t>(&constant->number.number);
  if (integer == nullptr) return std::nullopt;
  return *integer;
}

std::optional<SumOfChosen> one_hot_of(const KernelRewriter& from, int32_t value, const KernelReduce& reduce) {
  for (const int side : {0, 1}) {
    const auto found = sum_of_chosen(from.source(), value, side);
    if (!found || !reduce.over.contains(found->dim)) continue;
    const DimSet others = from.domain(found->chosen) | from.domain(found->added);
    if (!others.contains(found->dim)) return found;
  }
  return std::nullopt;
}

int32_t write_choice(KernelRewriter& to, const SumOfChosen& one, at::ScalarType dtype) {
  const int32_t position = to[one.chosen];
  const int32_t begin = to.add(at::kLong, KernelConstant{{int64_t{0}}});
  const SizeTerm extent = to.source().extents[one.dim];
  const int32_t end = extent.is_constant() ? to.add(at::kLong, KernelConstant{{extent.factor}})
                                           : to.add(at::kLong, KernelIndex{IndexMap().add(offset_term(extent))});
  const int32_t from = to.scalar("ge", at::kBool, {position, begin});
  const int32_t below = to.scalar("lt", at::kBool, {position, end});
  const int32_t is_inside = to.scalar("and", at::kBool, {from, below});
  return to.scalar("select", dtype, {is_inside, to[one.added], to.add(dtype, KernelConstant{zero_of(dtype)})});
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
    const auto one = reduce == nullptr ? std::nullopt : one_hot_of(to, static_cast<int32_t>(i), *reduce);
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
