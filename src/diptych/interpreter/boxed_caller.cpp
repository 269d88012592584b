// Calls through an operator's boxed entry, and calls of higher-order operators.
#include <ATen/core/function_schema.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/resolve_conj.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "diptych/base/check.h"
#include "diptych/graph/map_sizes.h"
#include "diptych/interpreter/boxed_arguments.h"
#include "diptych/interpreter/caller.h"
#include "diptych/interpreter/hop_rules.h"
#include "diptych/ops/related_operators.h"
#include "diptych/ops/tags.h"
#include "diptych/ops/trace_traits.h"

namespace diptych::detail {
namespace {

void put(Frame& frame, int32_t output, at::Tensor tensor) {
  if (output >= 0) frame.registers[output] = std::move(tensor);
}

// Returns the forms of a node's returns where the node does not state them; a list takes all outputs.
c10::SmallVector<int32_t, 2> forms_by_schema(const c10::FunctionSchema& schema, int32_t outputs) {
  c10::SmallVector<int32_t, 2> forms;
  for (const auto& result : schema.returns()) {
    const auto kind = result.type()->kind();
    forms.push_back(kind == c10::TypeKind::TensorType ? -1 : kind == c10::TypeKind::ListType ? outputs : -2);
  }
  return forms;
}

// Autograd has no formula for writing into a part of a complex tensor, and one for real tensors. The dims are those of
// the complex ones.
void call_on_real_and_imaginary(const c10::OperatorHandle& handle, torch::jit::Stack& stack) {
  const at::Tensor self = stack[0].toTensor(), source = stack[1].toTensor();
  const int64_t dim = stack[2].toInt();
  stack[0] = at::view_as_real(self.resolve_conj());
  stack[1] = at::view_as_real(source.to(self.scalar_type()).resolve_conj());
  stack[2] = dim < 0 ? dim + self.dim() : dim;
  handle.callBoxed(&stack);
  stack[0] = at::view_as_complex(stack[0].toTensor());
}

class BoxedCaller : public Caller {
 public:
  BoxedCaller(const Node& node, OperandTable& table, OutputRegisters outputs, c10::ArrayRef<int32_t> dying)
      : handle_(node.op.handle()),
        is_of_a_library_(!has_tag(node.op, Tag::kNative)),
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
    call_operator(frame, stack);
    size_t next = 0;
    for (size_t i = 0; i < returns_.size(); ++i) store_return(frame, returns_[i], stack[i], next);
    stack.clear();
  }

 private:
  virtual void call_operator(const Frame& /*frame*/, torch::jit::Stack& stack) const { call_boxed(stack); }

 protected:
  // Below autograd, the kernel of a library's operator runs as autograd's own kernels would run it: gradients are not
  // recorded.
  void call_boxed(torch::jit::Stack& stack) const {
    const bool is_below =
        is_of_a_library_ && c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutogradFunctionality);
    const at::AutoGradMode mode(!is_below && c10::GradMode::is_enabled());
    handle_.callBoxed(&stack);
  }
  const c10::OperatorHandle& handle() const { return handle_; }

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
    DIPTYCH_ASSERT(tensors.size() == static_cast<size_t>(form),
                   "{} returned a list of {} tensors, expected {} by the graph", toString(handle_.operator_name()),
                   tensors.size(), form);
    for (auto& tensor : tensors) put(frame, outputs_[next++], std::move(tensor));
  }

  c10::OperatorHandle handle_;
  bool is_of_a_library_;
  BoxedArguments arguments_;
  c10::SmallVector<int32_t, 2> returns_;
  OutputRegisters outputs_;
};

class ComplexPartCaller final : public BoxedCaller {
 public:
  using BoxedCaller::BoxedCaller;

 private:
  void call_operator(const Frame& frame, torch::jit::Stack& stack) const override {
    if (frame.options->differentiable) return call_on_real_and_imaginary(handle(), stack);
    call_boxed(stack);
  }
};

// A body takes its operands resolved where the caller's are lazy, and its nodes may be moved out of it.
class ResolvedCaller final : public BoxedCaller {
 public:
  using BoxedCaller::BoxedCaller;

 private:
  void call_operator(const Frame& /*frame*/, torch::jit::Stack& stack) const override {
    if (stack[0].toTensor().is_conj()) stack[0] = stack[0].toTensor().resolve_conj();
    call_boxed(stack);
  }
};

/// The kernels of a higher-order node. Most kernels plan for the sizes of the node's subgraphs, so where those are
/// dynamic there is one kernel for each of the last few sets of sizes. Threads: any.
class HopKernels {
 public:
  explicit HopKernels(const Node& node) {
    if (has_dynamic_sizes(node) && !takes_any_sizes(node.op.hop())) {
      node_ = node;
    } else {
      sized_.push_back({{}, std::make_shared<const HopKernel>(make_hop_kernel(node))});
    }
  }

  std::shared_ptr<const HopKernel> find(const Frame& frame) const {
    if (!node_) return sized_.front().kernel;
    const auto& symbols = frame.dynamic->symbols;
    const std::lock_guard lock(mutex_);
    const auto known =
        std::find_if(sized_.begin(), sized_.end(), [&](const Sized& sized) { return sized.symbols == symbols; });
    if (known != sized_.end()) return known->kernel;
    if (sized_.size() == kMost) sized_.erase(sized_.begin());
    sized_.push_back({symbols, std::make_shared<const HopKernel>(make_hop_kernel(instantiate(*node_, symbols)))});
    return sized_.back().kernel;
  }

 private:
  static constexpr size_t kMost = 16;
  struct Sized {
    std::map<std::string, int64_t> symbols;
    std::shared_ptr<const HopKernel> kernel;
  };
  std::optional<Node> node_;
  mutable std::mutex mutex_;
  mutable std::vector<Sized> sized_;
};

class HopCaller final : public Caller {
 public:
  HopCaller(const Node& node, OperandTable& table, OutputRegisters outputs, c10::ArrayRef<int32_t> dying)
      : name_(node.op.name()), kernels_(node), arguments_(node, table, dying), outputs_(std::move(outputs)) {}

  void call(Frame& frame) const override {
    std::vector<c10::IValue> operands;
    arguments_.push(frame, operands);
    auto results = (*kernels_.find(frame))(std::move(operands), *frame.options);
    DIPTYCH_ASSERT(results.size() == outputs_.size(), "{} returned {} tensors, expected {} by the graph", name_,
                   results.size(), outputs_.size());
    for (size_t i = 0; i < results.size(); ++i) put(frame, outputs_[i], std::move(results[i]));
  }

 private:
  std::string name_;
  HopKernels kernels_;
  BoxedArguments arguments_;
  OutputRegisters outputs_;
};

}  // namespace

bool writes_part_of_complex(const Graph& graph, const Node& node) {
  return lacks_complex_formula(node.op) && node.outputs[0] && c10::isComplexType(graph.meta(node.outputs[0]).dtype);
}

std::unique_ptr<Caller> make_complex_part_caller(const Node& node, OperandTable& table, OutputRegisters outputs,
                                                 c10::ArrayRef<int32_t> dying) {
  return std::make_unique<ComplexPartCaller>(node, table, std::move(outputs), dying);
}

bool reads_resolved(const Node& node) { return trace_trait(node.op) == TraceTrait::kReadsResolved; }

std::unique_ptr<Caller> make_boxed_caller(const Node& node, OperandTable& table, OutputRegisters outputs,
                                          c10::ArrayRef<int32_t> dying) {
  if (node.op.is_hop()) return std::make_unique<HopCaller>(node, table, std::move(outputs), dying);
  if (reads_resolved(node)) return std::make_unique<ResolvedCaller>(node, table, std::move(outputs), dying);
  return std::make_unique<BoxedCaller>(node, table, std::move(outputs), dying);
}

}  // namespace diptych::detail
