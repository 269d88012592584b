// Reductions of a row, or of the vector lanes of several, as LLVM IR: variables in which elements come together.
#pragma once
#include <string>

#include "diptych/native/codegen/point_code.h"
#include "diptych/native/schedule/schedule.h"

namespace diptych::detail {

/// A variable in which elements come together, and another one for long rows in which those come together.
struct Sum {
  int32_t value = 0;  ///< a reduction
  int lanes = 0;
  std::string variable, position;  ///< position: of argmin and argmax
  std::string total;               ///< empty if it is not needed
};

class SumCode {
 public:
  SumCode(LlvmWriter& writer, PointCode& point, const Schedule& schedule)
      : writer_(writer), point_(point), s_(schedule) {}

  const KernelReduce& reduce_of(int32_t value) const;
  /// The dtype in which elements come together.
  at::ScalarType folded_dtype(int32_t value) const;
  /// What a reduction of nothing is, before its first element.
  std::string first(int32_t value, int lanes);

  /// `is_long`: whether the sum is one of sums of blocks, each of which move_to_total() ends.
  Sum begin(int32_t reduction, int lanes, bool is_long);
  /// Adds the operand at the point, but for masked lanes.
  void add(Sum& sum);
  void move_to_total(const Sum& sum);
  Code finish(const Sum& sum);

 private:
  void add_position(Sum& sum, const std::string& element);
  std::string position();

  LlvmWriter& writer_;
  PointCode& point_;
  const Schedule& s_;
};

}  // namespace diptych::detail
