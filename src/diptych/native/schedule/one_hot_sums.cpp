#include "diptych/native/schedule/one_hot_sums.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "diptych/base/check.h"
#include "diptych/native/lower/kernel_builder.h"
#include "diptych/native/schedule/kernel_patterns.h"
#include "diptych/native/schedule/kernel_rewriter.h"

namespace diptych::detail {
namespace {

std::optional<int64_t> integer_of(const Kernel& kernel, int32_t value) {
  const auto* constant = std::get_if<KernelConstant>(&kernel.values[value].made_by);
  const auto* integer = constant == nullptr ? nullptr : std::get_if<int64_t>(&constant->number.number);
  if (integer == nullptr) return std::nullopt;
  return *integer;
}

// Whether a value can be made at one position of a dim: reductions that vary along it can't.
bool has_choice(const KernelRewriter& from, int32_t value, int32_t dim) {
  std::vector<bool> can(value + 1);
  for (int32_t i = 0; i <= value; ++i) {
    const auto used = values_used(from.source().values[i]);
    const bool is_made = from.reduce_at(i) == nullptr && std::ranges::all_of(used, [&](int32_t u) { return can[u]; });
    can[i] = !from.domain(i).contains(dim) || is_made;
  }
  return can[value];
}

std::optional<SumOfChosen> one_hot_of(const KernelRewriter& from, int32_t value, const KernelReduce& reduce,
                                      OneHotTerms terms) {
  for (const int side : {0, 1}) {
    const auto found = sum_of_chosen(from.source(), value, side);
    if (!found || !reduce.over.contains(found->dim) || from.domain(found->chosen).contains(found->dim)) continue;
    const bool is_equal = !from.domain(found->added).contains(found->dim);
    if (is_equal || (terms == OneHotTerms::kAny && has_choice(from, found->added, found->dim))) return found;
  }
  return std::nullopt;
}

// Writes values at one position of a dim. Where there is no such position, nothing is loaded.
class AtPosition {
 public:
  AtPosition(KernelRewriter& to, int32_t dim, int32_t position, int32_t is_inside)
      : to_(to), dim_(dim), position_(position), is_inside_(is_inside) {}

  int32_t value(int32_t old) {
    if (!to_.domain(old).contains(dim_)) return to_[old];
    const auto known = made_.find(old);
    if (known != made_.end()) return known->second;
    const KernelValue& from = to_.source().values[old];
    return made_[old] = std::visit([&](const auto& made_by) { return write(from.dtype, made_by); }, from.made_by);
  }

 private:
  int32_t write(at::ScalarType dtype, const KernelConstant& constant) { return to_.add(dtype, constant); }
  int32_t write(at::ScalarType dtype, const KernelIndex& index) { return to_.add(dtype, KernelIndex{map(index.map)}); }
  int32_t write(at::ScalarType dtype, const KernelLoad& load) {
    LoadMask mask{is_inside_, 0};
    if (load.mask) {
      mask.condition = to_.scalar("and", at::kBool, {value(load.mask->condition), is_inside_});
      mask.other = value(load.mask->other);
    } else {
      mask.other = zero(dtype);
    }
    return to_.add(dtype, KernelLoad{load.input, map(load.map), mask});
  }
  int32_t write(at::ScalarType dtype, const KernelScalar& scalar) {
    KernelScalar here{scalar.op, {}};
    for (const int32_t operand : scalar.operands) here.operands.push_back(value(operand));
    return to_.add(dtype, std::move(here));
  }
  int32_t write(at::ScalarType, const KernelReduce& reduce) {
    DIPTYCH_ASSERT(false, "the result of {} at one position of a dim", reduce.reduction->name);
  }

  // Constants are of no half type: they are cast to it.
  int32_t zero(at::ScalarType dtype) {
    if (!has_dtype(kHalves, dtype)) return to_.add(dtype, KernelConstant{zero_of(dtype)});
    return to_.scalar("cast", dtype, {to_.constant(0, at::kFloat)});
  }

  IndexMap map(const IndexMap& from) {
    IndexMap here;
    for (const IndexTerm& term : from.terms()) {
      if (term.factor == IndexFactor::kValue) {
        here.add(value_term(term.coefficient, value(term.id)));
      } else if (term.factor == IndexFactor::kDim && term.id == dim_) {
        here.add(value_term(term.coefficient, position_));
      } else {
        here.add(term);
      }
    }
    return here;
  }

  KernelRewriter& to_;
  int32_t dim_, position_, is_inside_;
  std::map<int32_t, int32_t> made_;
};

int32_t write_choice(KernelRewriter& to, const SumOfChosen& one, at::ScalarType dtype) {
  const int32_t position = to[one.chosen];
  const int32_t begin = to.add(at::kLong, KernelConstant{{int64_t{0}}});
  const SizeTerm extent = to.source().extents[one.dim];
  const int32_t end = extent.is_constant() ? to.add(at::kLong, KernelConstant{{extent.factor}})
                                           : to.add(at::kLong, KernelIndex{IndexMap().add(offset_term(extent))});
  const int32_t from = to.scalar("ge", at::kBool, {position, begin});
  const int32_t below = to.scalar("lt", at::kBool, {position, end});
  const int32_t is_inside = to.scalar("and", at::kBool, {from, below});
  const int32_t chosen = AtPosition(to, one.dim, position, is_inside).value(one.added);
  return to.scalar("select", dtype, {is_inside, chosen, to.add(dtype, KernelConstant{zero_of(dtype)})});
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

Kernel without_one_hot_sums(const Kernel& source, OneHotTerms terms) {
  const Kernel kernel = without_neutral_operands(source);
  KernelRewriter to(kernel);
  for (size_t i = 0; i < kernel.values.size(); ++i) {
    const KernelReduce* reduce = to.reduce_at(i);
    const auto one = reduce == nullptr ? std::nullopt : one_hot_of(to, static_cast<int32_t>(i), *reduce, terms);
    if (!one) {
      to.copy(i);
      continue;
    }
    const at::ScalarType dtype = kernel.values[i].dtype;
    const int32_t choice = write_choice(to, *one, dtype);
    const DimSet rest = reduce->over.without(DimSet::of(one->dim));
    to.map_next(rest.empty() ? choice : to.reduce("sum", dtype, choice, rest));
  }
  Kernel result = to.finish();
  remove_unused_values(result);  // elements of which one was picked
  return result;
}

}  // namespace diptych::detail
