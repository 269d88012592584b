// A node's operands as IValues, for boxed calls and for the kernels of higher-order operators.
#pragma once
#include <ATen/core/stack.h>

#include <vector>

#include "diptych/interpreter/frame.h"
#include "diptych/interpreter/operand_table.h"

namespace diptych::detail {

/// Operands prepared once; push() is all that a call does.
class BoxedArguments {
 public:
  /// `dying` holds the registers that are read for the last time by this node.
  BoxedArguments(const Node& node, OperandTable& table, c10::ArrayRef<int32_t> dying);
  /// Appends one IValue per operand. A dying register is moved from at its last occurrence, so that nothing but the
  /// stack holds its tensor.
  void push(Frame& frame, torch::jit::Stack& stack) const;

 private:
  enum class Kind : uint8_t { kTensor, kTensorList, kOptionalTensorList, kSize, kSizes, kNumber, kConstant };
  struct Argument {
    Kind kind = Kind::kConstant;
    int32_t index = -1;  // a tensor reference, or the number of a dynamic size, list or number
    bool is_last = false;
    c10::SmallVector<std::pair<int32_t, bool>, 4> list;  // references with is_last
    c10::IValue constant;
  };
  static Argument make(const Node& node, size_t position, OperandTable& table);
  static void push_list(Frame& frame, const Argument& argument, torch::jit::Stack& stack);
  static void push_optional_list(Frame& frame, const Argument& argument, torch::jit::Stack& stack);

  std::vector<Argument> arguments_;
};

}  // namespace diptych::detail
