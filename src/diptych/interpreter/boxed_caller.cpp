// Calls through an operator's boxed entry, and calls of higher-order operators.
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

class BoxedCaller final : public Caller {
 public:
  BoxedCaller(const Node& node, OperandTable& table, OutputRegisters outputs, c10::ArrayRef<int32_t> dying)
      : handle_(node.op.handle()), arguments_(node, table, dying), returns_(node.returns), outputs_(std::move(outputs)) {
    // A node that says nothing of its returns has one tensor for each.
    if (returns_.empty()) returns_.assign(handle_.schema().returns().size(), -1);
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
