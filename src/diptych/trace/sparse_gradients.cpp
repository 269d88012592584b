#include "diptych/trace/sparse_gradients.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/add.h>
#include <c10/core/GradMode.h>
#include <torch/library.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "diptych/base/check.h"
#include "diptych/trace/exchange_tensors.h"
#include "diptych/trace/location.h"

namespace diptych::detail {
namespace {

namespace functional = at::functionalization::impl;
using torch::jit::Stack;

// An operator that makes a sparse tensor of plain ones: always, or where the argument `sparse` is true. Each has a
// shape function, which returns a plain result.
struct Maker {
  std::string_view name;
  std::optional<size_t> sparse;
};

constexpr Maker kMakers[] = {
    {"aten::_embedding_bag_backward", 9},    {"aten::_embedding_bag_sparse_backward", {}},
    {"aten::_gather_sparse_backward", {}},   {"aten::_sparse_coo_tensor_unsafe", {}},
    {"aten::embedding_sparse_backward", {}},
};

bool makes_sparse(const c10::OperatorHandle& op, const Stack& stack) {
  const std::string_view name = op.operator_name().name;
  const auto* row =
      std::find_if(std::begin(kMakers), std::end(kMakers), [&](const Maker& maker) { return maker.name == name; });
  if (row == std::end(kMakers)) return false;
  return !row->sparse || stack[stack.size() - op.schema().arguments().size() + *row->sparse].toBool();
}

// The last trace of this thread that has made a sparse gradient: in others no argument is looked at.
thread_local uint64_t trace_with_sparse = kNoTrace;

struct KeysOf : c10::TensorImpl {
  static void add(c10::TensorImpl& tensor, c10::DispatchKey key) {
    c10::DispatchKeySet& keys = tensor.*(&KeysOf::key_set_);
    keys = keys.add(key);
  }
};

bool is_sparse(const at::Tensor& tensor) { return tensor.defined() && tensor.is_sparse(); }

void refuse_readers(const Recorder& recorder, const c10::OperatorHandle& op, const OperatorPlan& plan,
                    const Stack& stack) {
  if (trace_with_sparse != recorder.id()) return;
  const bool reads =
      any_tensor(stack, plan, [&](const at::Tensor& given) { return is_sparse(given) && recorder.owns(given); });
  DIPTYCH_CHECK(!reads,
                "[trace] {} reads a sparse gradient, as an embedding with sparse=True has, which a graph can only add "
                "to others and hand to autograd; pass sparse=False (sparse(false) in C++), or make what the embedding "
                "looks up in an argument of the traced function",
                with_place(op.operator_name()));
}

// Records the call behind functionalization; the result is plain.
at::Tensor record_plain(Recorder& recorder, const c10::OperatorHandle& op, const OperatorPlan& plan, Stack* stack) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::AutoDispatchSkipFunctionalize below_functionalization;
  exchange_each(plan, *stack, [](const at::Tensor& tensor) -> at::Tensor {
    if (!tensor.defined() || !functional::isFunctionalTensor(tensor)) return tensor;
    functional::sync(tensor);
    return functional::from_functional_tensor(tensor);
  });
  recorder.record(op, plan, stack);
  at::Tensor result = functional::to_functional_tensor(stack->back().toTensor());
  look_dense(result);
  return result;
}

void look_sparse(const Recorder& recorder, const at::Tensor& stand_in) {
  KeysOf::add(*stand_in.unsafeGetTensorImpl(), c10::DispatchKey::Sparse);
  trace_with_sparse = recorder.id();
}

}  // namespace

bool record_sparse_gradient(Recorder& recorder, const c10::OperatorHandle& op, const OperatorPlan& plan, Stack* stack) {
  if (recorder.phase() != Phase::kBackward) return false;
  refuse_readers(recorder, op, plan, *stack);
  if (plan.shape == nullptr || !plan.is_native || c10::GradMode::is_enabled() || !makes_sparse(op, *stack))
    return false;
  // A body, a bare pair, a step and a captured backward hand no gradient to autograd as it is.
  DIPTYCH_CHECK(
      recorder.asked_values().may_ask(),
      "[trace] {} returns a sparse tensor, as the gradient of an embedding with sparse=True is, which a graph can't "
      "hold; pass sparse=False (sparse(false) in C++), or call the sparse operator outside the traced function",
      with_place(op.operator_name()));
  const at::Tensor result = record_plain(recorder, op, plan, stack);
  look_sparse(recorder, result);
  stack->back() = result;
  return true;
}

// The engine puts a sparse sum second, by which the order of its elements is known.
at::Tensor add_gradients(const at::Tensor& sum, const at::Tensor& gradient) {
  if (!sum.is_sparse() && !gradient.is_sparse()) return at::add(sum, gradient);
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("diptych::add_gradients", "");
  Recorder& recorder = *Recorder::current();
  Stack stack{sum, gradient};
  if (sum.is_sparse()) std::swap(stack[0], stack[1]);
  const at::Tensor result = record_plain(recorder, op, plan_for(op), &stack);
  if (sum.is_sparse() && gradient.is_sparse()) look_sparse(recorder, result);
  return result;
}

}  // namespace diptych::detail

// An operator of its own, since backends may compute aten::add by code that only plain tensors fit.
TORCH_LIBRARY_FRAGMENT(diptych, m) {
  m.def("add_gradients(Tensor sum, Tensor gradient) -> Tensor",
        [](const at::Tensor& sum, const at::Tensor& gradient) { return at::add(sum, gradient); });
}
