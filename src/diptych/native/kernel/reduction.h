// The reductions of kernels: one table, a row per reduction.
//
// Note [Every value has one result]
// The largest element and its position are two reductions of one operand over the same dims, and so are the mean and
// the sum of squared deviations from it. Whoever makes code does such a pair in one pass (the second by Welford's
// recurrence); a pass over kernels then never meets a value with two results.
#pragma once
#include <span>
#include <string_view>

#include "diptych/native/kernel/dtypes.h"

namespace diptych::detail {

/// How the dtype of a reduction's result follows from its operand's.
enum class ReductionResult : uint8_t {
  kSame,
  kPosition,  ///< i64
  kWider,     ///< any number to which the operand promotes: that is what is accumulated in
};

/// `elements` are those of the operand along the reduced dims, the last dim running fastest.
struct Reduction {
  using Evaluate = void (*)(at::ScalarType operand, at::ScalarType result, const void* elements, int64_t count,
                            void* to);

  std::string_view name;
  DtypeSet operands = 0;
  ReductionResult result = ReductionResult::kSame;
  bool has_empty = true;  ///< whether no elements have a result: the largest of none is none
  Evaluate evaluate = nullptr;
};

std::span<const Reduction> reductions();
/// The row of this name; null if there is none.
const Reduction* find_reduction(std::string_view name);

}  // namespace diptych::detail
