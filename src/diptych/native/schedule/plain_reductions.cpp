#include "diptych/native/schedule/plain_reductions.h"

#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "diptych/native/kernel/reduction.h"
#include "diptych/native/kernel/scalar_op.h"
#include "diptych/native/schedule/kernel_rewriter.h"

namespace diptych::detail {
namespace {

// The number of elements of a reduction, in the dtype of its result.
int32_t write_count(KernelRewriter& to, DimSet dims, at::ScalarType dtype) {
  double count = 1;
  std::optional<int32_t> dynamic;
  const Kernel& kernel = to.source();
  for (size_t d = 0; d < kernel.extents.size(); ++d) {
    if (!dims.contains(static_cast<int32_t>(d))) continue;
    if (kernel.extents[d].is_constant()) {
      count *= static_cast<double>(kernel.extents[d].factor);
      continue;
    }
    const int32_t size = to.add(at::kLong, KernelIndex{IndexMap().add(offset_term(kernel.extents[d]))});
    const int32_t number = to.scalar("cast", dtype, {size});
    dynamic = dynamic ? to.scalar("mul", dtype, {*dynamic, number}) : number;
  }
  if (!dynamic) return to.constant(count, dtype);
  return count == 1 ? *dynamic : to.scalar("mul", dtype, {*dynamic, to.constant(count, dtype)});
}

int32_t write_mean(KernelRewriter& to, const KernelReduce& reduce, at::ScalarType dtype) {
  const int32_t sum = to.reduce("sum", dtype, to[reduce.operand], reduce.over);
  return to.scalar("div", dtype, {sum, write_count(to, reduce.over, dtype)});
}

int32_t write_squared_deviations(KernelRewriter& to, const KernelReduce& reduce, at::ScalarType dtype) {
  const int32_t mean = write_mean(to, reduce, dtype);
  const int32_t deviation = to.scalar("sub", dtype, {to[reduce.operand], mean});
  return to.reduce("sum", dtype, to.scalar("mul", dtype, {deviation, deviation}), reduce.over);
}

// An infinite largest element would make NaN of the differences.
int32_t write_logsumexp(KernelRewriter& to, const KernelReduce& reduce, at::ScalarType dtype) {
  const int32_t largest = to.reduce("max", dtype, to[reduce.operand], reduce.over);
  const int32_t is_infinite = to.scalar("is_inf", at::kBool, {largest});
  const int32_t shift = to.scalar("select", dtype, {is_infinite, to.constant(0, dtype), largest});
  const int32_t term = to.scalar("exp", dtype, {to.scalar("sub", dtype, {to[reduce.operand], shift})});
  const int32_t sum = to.reduce("sum", dtype, term, reduce.over);
  return to.scalar("add", dtype, {to.scalar("log", dtype, {sum}), shift});
}

struct Statistic {
  std::string_view name;
  int32_t (*write)(KernelRewriter&, const KernelReduce&, at::ScalarType);
};
constexpr Statistic kStatistics[] = {
    {"mean", write_mean}, {"squared_deviations", write_squared_deviations}, {"logsumexp", write_logsumexp}};

const Statistic* find_statistic(const KernelReduce* reduce) {
  for (const Statistic& statistic : kStatistics) {
    if (reduce != nullptr && reduce->reduction->name == statistic.name) return &statistic;
  }
  return nullptr;
}

}  // namespace

Kernel with_plain_reductions(const Kernel& kernel) {
  KernelRewriter to(kernel);
  for (size_t i = 0; i < kernel.values.size(); ++i) {
    const KernelReduce* reduce = to.reduce_at(i);
    if (const Statistic* statistic = find_statistic(reduce)) {
      to.map_next(statistic->write(to, *reduce, kernel.values[i].dtype));
    } else {
      to.copy(i);
    }
  }
  return to.finish();
}

Kernel with_split_reductions(const Kernel& kernel, DimSet row) {
  KernelRewriter to(kernel);
  for (size_t i = 0; i < kernel.values.size(); ++i) {
    const KernelReduce* reduce = to.reduce_at(i);
    const bool is_position = reduce != nullptr && reduce->reduction->result == ReductionResult::kPosition;
    const bool splits =
        reduce != nullptr && !is_position && !(reduce->over & row).empty() && !reduce->over.without(row).empty();
    if (!splits) {
      to.copy(i);
      continue;
    }
    const at::ScalarType dtype = kernel.values[i].dtype;
    // Whether any of equal ones is true needs no pass over the row.
    const bool is_equal = reduce->reduction->name == "any" && (to.domain(reduce->operand) & row).empty();
    const int32_t inner = is_equal
                              ? to[reduce->operand]
                              : to.add(dtype, KernelReduce{reduce->reduction, to[reduce->operand], reduce->over & row});
    to.map_next(to.add(dtype, KernelReduce{reduce->reduction, inner, reduce->over.without(row)}));
  }
  return to.finish();
}

}  // namespace diptych::detail
