// The compile-time side of a Frame: gives every value of a graph its register or constant, and every size that depends
// on symbols its number. Callers are built from it.
#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// An operand that is a number computed from sizes: a SizeExpr or a SizeNumber, passed as a number or as a tensor.
struct DynamicNumber {
  Operand expression;
  bool is_tensor = false;
  c10::IValue evaluate(const std::map<std::string, int64_t>& symbols) const;
};

/// Where the operands of one program's nodes are found at run time.
class OperandTable {
 public:
  explicit OperandTable(const Graph& graph);

  /// Returns the reference (see Frame) of a value; for none, that of the undefined tensor. Requires: an input, a
  /// constant, or a value that set_register() was called for.
  int32_t reference(Value value) const;
  void set_register(Value value, int32_t index);
  /// Returns the reference of a tensor operand: a value, or a number that is made a tensor once here.
  /// Requires: is_tensor(operand).
  int32_t tensor_reference(const Operand& operand);
  static bool is_tensor(const Operand& operand);

  /// Remembers an expression to be evaluated once for each run, and returns its number in DynamicSizes.
  int32_t dynamic_scalar(const SizeExpr& size);
  int32_t dynamic_list(const Sizes& sizes);
  int32_t dynamic_number(DynamicNumber number);

  const std::vector<SizeExpr>& scalars() const { return scalars_; }
  const std::vector<Sizes>& lists() const { return lists_; }
  const std::vector<DynamicNumber>& numbers() const { return numbers_; }
  /// The constants, to be moved into the program when all callers are made.
  std::vector<at::Tensor> take_constants() { return std::move(constants_); }

 private:
  std::vector<int32_t> references_;  // by value id
  std::vector<at::Tensor> constants_;
  std::vector<SizeExpr> scalars_;
  std::vector<Sizes> lists_;
  std::vector<DynamicNumber> numbers_;
};

/// Whether every size is a plain integer.
bool all_static(const Sizes& sizes);

}  // namespace diptych::detail
