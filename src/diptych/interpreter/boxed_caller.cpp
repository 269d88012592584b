// Calls through an operator's boxed entry, and calls of higher-order operators.
#include <ATen/core/function_schema.h>
#include <ATen/core/jit_type.h>

#include <utility>

#include "diptych/base/error.h"
#include "diptych/interpreter/boxed_arguments.h"
#include "diptych/interpreter/caller.h"
#include "diptych/interpreter/hop_rules.h"

namespace diptych::detail {
namespace {

void put(Frame& frame, int32_t output, at::Tensor tensor) {
  if (output >= 0) frame.registers[output] = std::move(tensor);
}

// The forms of the returns of a node that does not say them itself; a list takes all outputs.
c10::SmallVector<int32_t, 2> forms_by_schema(const c10::FunctionSchema& schema, int32_t outputs) {
  c10::SmallVector<int32_t, 2> forms;
  for (const auto& result : schema.returns()) {
    const auto kind = result.type()->kind();
    forms.push_back(kind == c10::TypeKind::TensorType ? -1 : kind == c10::TypeKind::ListType ? outputs : -2);
  }
  return forms;
}

class BoxedCaller final : public Caller {
 public:
  BoxedCaller(const Node& node, OperandTable& table, OutputRegisters outputs, c10::ArrayRef<int32_t> dying)
      : handle_(node.op.handle()),
        arguments_(node, table, dying),
        returns_(node.returns),
        outputs_(std::move(outputs)) {
    if (returns_.empty()) returns_ = forms_by_schema(handle_.schema(), static_cast<int32_t>(outputs_.size()));
  }

  void call(Frame& frame) const override {
    auto& stack = frame.stack;
    // A kernel may run another program on this thread, which has a frame of its own; still, start from a known state.
    stack.clear();
    arguments_.push(frame, stack);
    handle_.callBoxed(&stack);
    size_t next = 0;
    for (size_t i = 0; i < returns_.size(); ++i) store_return(frame, returns_[i], stack[i], next);
    stack.clear();
  }

 private:
  void store_return(Frame& frame, int32_t form, c10::IValue& result, size_t& next) const {
    if (form == -2) return;
    if (form == -1) {
      if (result.isNone()) {
        ++next;
      } else {
        put(frame, outputs_[next++], std::move(result).toTensor());
      }
      return;
    }
    auto tensors = result.toTensorVector();
    DIPTYCH_ASSERT(tensors.size() == static_cast<size_t>(form), "{} returned a list of {} tensors, the graph says {}",
                   toString(handle_.operator_name()), tensors.size(), form);
    for (auto& tensor : tensors) put(frame, outputs_[next++], std::move(tensor));
  }

  c10::OperatorHandle handle_;
  BoxedArguments arguments_;
  c10::SmallVector<int32_t, 2> returns_;
  OutputRegisters outputs_;
};

class HopCaller final : public Caller {
 public:
  HopCaller(const Node& node, OperandTable& table, OutputRegisters outputs, c10::ArrayRef<int32_t> dying)
      : name_(node.op.name()),
        kernel_(make_hop_kernel(node)),
        arguments_(node, table, dying),
        outputs_(std::move(outputs)) {}

  void call(Frame& frame) const override {
    std::vector<c10::IValue> operands;
    arguments_.push(frame, operands);
    auto results = kernel_(std::move(operands), *frame.options);
    DIPTYCH_ASSERT(results.size() == outputs_.size(), "{} returned {} tensors, the graph says {}", name_,
                   results.size(), outputs_.size());
    for (size_t i = 0; i < results.size(); ++i) put(frame, outputs_[i], std::move(results[i]));
  }

 private:
  std::string name_;
  HopKernel kernel_;
  BoxedArguments arguments_;
  OutputRegisters outputs_;
};

}  // namespace

std::unique_ptr<Caller> make_boxed_caller(const Node& node, OperandTable& table, OutputRegisters outputs,
                                          c10::ArrayRef<int32_t> dying) {
  if (node.op.is_hop()) return std::make_unique<HopCaller>(node, table, std::move(outputs), dying);
  return std::make_unique<BoxedCaller>(node, table, std::move(outputs), dying);
}

}  // namespace diptych::detail
