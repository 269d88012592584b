#include "diptych/trace/recorder.h"

#include <ATen/EmptyTensor.h>
#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/functorch/TensorWrapper.h>
#include <ATen/ops/clone.h>

#include <algorithm>
#include <atomic>

#include "diptych/base/check.h"
#include "diptych/graph/in_tensors.h"
#include "diptych/ops/dispatch_keys.h"
#include "diptych/ops/several_devices.h"
#include "diptych/trace/default_dtype.h"
#include "diptych/trace/eager_layout.h"
#include "diptych/trace/eager_refusal.h"
#include "diptych/trace/generator_watch.h"
#include "diptych/trace/location.h"
#include "diptych/trace/numbers_of_libraries.h"
#include "diptych/trace/outer_levels.h"
#include "diptych/trace/place_of_operand.h"
#include "diptych/trace/placeholder.h"
#include "diptych/trace/run_on_meta.h"
#include "diptych/trace/solver_batches.h"
#include "diptych/trace/stack_tensors.h"
#include "diptych/trace/transforms.h"

namespace diptych::detail {
namespace {

uint64_t next_trace_id() {
  static std::atomic<uint64_t> counter{0};
  return ++counter;
}

void check_supported(const at::Tensor& tensor, const std::string& path) {
  DIPTYCH_CHECK(!tensor.is_nested(),
                "[capture] '{}' is a nested tensor, expected a strided one; convert it with to_padded_tensor() first",
                path);
  DIPTYCH_CHECK(tensor.layout() == c10::kStrided,
                "[capture] '{}' is a tensor of layout {}, expected a strided one; convert it with to_dense() first",
                path, c10::str(tensor.layout()));
  DIPTYCH_CHECK(!tensor.is_quantized(),
                "[capture] '{}' is a quantized tensor ({}), expected a plain one; dequantize() it first", path,
                c10::toString(tensor.scalar_type()));
}

// A stand-in of another trace may only be used inside that trace.
void check_not_escaped(const at::Tensor& tensor) {
  const FakeTensorImpl* foreign = as_fake(tensor);
  DIPTYCH_CHECK(foreign == nullptr || foreign->trace_id == kNoTrace || is_inside_trace(foreign->trace_id),
                "[trace] got a tensor that escaped from a trace that has ended; return it from the traced function "
                "instead of storing it outside");
}

// Functionalization casts a result to the dtype of the tensor that an in-place operator writes to, without a check.
// Kernels that write refuse some of these casts.
void check_cast(const Recorder::Front& front, const c10::IValue& source, const c10::IValue& dtype) {
  if (front.plan == nullptr || !front.plan->mutates || front.plan->trait == TraceTrait::kCopiesInto) return;
  if (!dtype.isInt()) return;
  const auto from = source.toTensor().scalar_type(), to = dtype.toScalarType();
  TORCH_CHECK(c10::canCast(from, to), front.schema->name(), " gives a result of type ", from,
              ", which can't be cast to the desired output type ", to);
}

bool is_differentiable(at::ScalarType dtype) { return c10::isFloatingType(dtype) || c10::isComplexType(dtype); }

ResultShape make_shape(c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset, at::ScalarType dtype) {
  return {c10::DimVector(sizes), c10::DimVector(strides), offset, dtype};
}

}  // namespace

// Facts of a call that follow from its arguments.
struct Recorder::Call {
  std::optional<c10::Device> device;
  std::optional<c10::Device> of_elements, other_device;  // of operands that are no single number of the host
  bool any_requires_grad = false;
  bool requires_grad = false;  // the results do, where they are differentiable

  void add_device_of(const c10::TensorImpl& operand) {
    const c10::Device found = operand.device();
    if (!device || *device == c10::kCPU) device = found;
    if (found == c10::kCPU && operand.dim() == 0) return;
    if (!of_elements) of_elements = found;
    if (*of_elements != found) other_device = found;
  }
  TensorMeta result(TensorMeta meta) const {
    meta.device = device.value_or(c10::kCPU);
    meta.requires_grad = requires_grad && is_differentiable(meta.dtype);
    return meta;
  }
};

Recorder::Recorder(std::string graph_name) : id_(next_trace_id()), graph_(std::move(graph_name)) {
  // Enough for a model of some layers: moving the nodes as a graph grows is a tenth of the time of a large capture.
  graph_.reserve(2048);
}

void Recorder::name_residual(const at::Tensor& tensor, std::string_view name) {
  provenance_.name_residual(owns(tensor) ? value_of(tensor) : Value{}, name);
}

// The storage of the stand-in is as large as its sizes and strides reach.
at::Tensor Recorder::make_stand_in(const ResultShape& shape, c10::Device device, Value value) const {
  const auto storage_size = at::detail::computeStorageNbytes(shape.sizes, shape.strides, /*itemsize_bytes=*/1);
  const at::Tensor fake = make_fake(shape, static_cast<int64_t>(storage_size), device, id_, value);
  const at::Tensor stand_in = at::functionalization::impl::to_functional_tensor(fake);
  look_dense(stand_in);
  return stand_in;
}

at::Tensor Recorder::add_input(const at::Tensor& example, Slot slot) {
  check_supported(example, slot.path);
  const Value value = graph_.add_input(TensorMeta::of(example), std::move(slot));
  const ResultShape shape =
      make_shape(example.sizes(), example.strides(), example.storage_offset(), example.scalar_type());
  return make_stand_in(shape, example.device(), value);
}

bool Recorder::owns(const at::Tensor& tensor) const {
  const FakeTensorImpl* fake = as_fake(tensor);
  return fake != nullptr && fake->trace_id == id_;
}

void Recorder::note_transform(std::string why) {
  if (transform_met_.empty()) transform_met_ = std::move(why);
}

const at::Tensor& Recorder::add_primal(const at::Tensor& given, Slot slot) {
  at::Tensor real = given, wrapped;
  if (const auto why = transform_of(given)) {
    if (!takes_wrapped_ || !has_rules(given) || !is_of_outer_levels(given))
      note_transform(fmt::format("'{}' {}", slot.path, *why));
    wrapped = given;
    real = make_placeholder(logical_meta(given));
  }
  check_not_escaped(real);
  at::Tensor stand_in = add_input(real, slot);
  const Value value = as_fake(stand_in)->value;
  return primals_.add(given, {std::move(real), std::move(stand_in), value, {}, std::move(slot), std::move(wrapped)})
      .stand_in;
}

const at::Tensor& Recorder::stand_in(const at::Tensor& tensor) {
  if (!tensor.defined() || owns(tensor)) return tensor;
  // A wrapper whose transform has ended is what it wraps, as in the pullback of a vjp.
  const auto* wrapper = at::functorch::maybeGetTensorWrapper(tensor);
  if (wrapper != nullptr && !wrapper->is_alive()) return stand_in(wrapper->value());
  if (const Primal* known = primals_.find(tensor)) {
    if (known->slot.kind == SlotKind::kArgument) primals_.note_captured(*known);
    return known->stand_in;
  }
  if (const at::Tensor* alias = primals_.alias_of(tensor)) return *alias;
  return add_primal(tensor, {SlotKind::kFreeVariable, primals_.next_free_path()});
}

void Recorder::name_free_variables(const std::function<std::string(const at::Tensor& real)>& find) {
  std::vector<Slot> slots = graph_.input_slots();
  for (const size_t index : primals_.unnamed()) {
    Primal& primal = primals_[index];
    const auto input = std::find(graph_.inputs().begin(), graph_.inputs().end(), primal.value);
    const std::string name = find(primal.real);
    if (name.empty() || primals_.has_path(name) || input == graph_.inputs().end()) continue;
    primal.slot.path = name;
    slots[static_cast<size_t>(input - graph_.inputs().begin())].path = name;
  }
  graph_.rename_slots(std::move(slots), graph_.output_slots());
}

at::Tensor Recorder::lift(const at::Tensor& literal) {
  const bool is_literal = !is_stand_in(literal) && literal.layout() == c10::kStrided && literal.has_storage() &&
                          literal.storage().resizable() && literal.storage().use_count() == 1;
  if (!is_literal) return {};
  check_supported(literal, "a literal");
  const ResultShape shape =
      make_shape(literal.sizes(), literal.strides(), literal.storage_offset(), literal.scalar_type());
  const at::Tensor constant = at::functionalization::impl::to_functional_tensor(
      make_fake(shape, literal.numel(), literal.device(), id_, graph_.add_constant(literal)));
  return at::clone(constant);
}

Value Recorder::value_of(const at::Tensor& stand_in) {
  if (!stand_in.defined()) return Value{};
  if (at::functionalization::impl::isFunctionalTensor(stand_in)) at::functionalization::impl::sync(stand_in);
  const FakeTensorImpl* fake = as_fake(stand_in);
  DIPTYCH_ASSERT(fake != nullptr && fake->trace_id == id_, "value_of got a tensor that is not of trace {}", id_);
  return fake->value;
}

at::Tensor Recorder::snapshot(const at::Tensor& stand_in) {
  (void)value_of(stand_in);  // applies pending writes
  if (!at::functionalization::impl::isFunctionalTensor(stand_in)) return stand_in;
  namespace fn = at::functionalization::impl;
  const at::Tensor copy = fn::to_functional_tensor(fn::from_functional_tensor(stand_in));
  copy.unsafeGetTensorImpl()->set_version_counter(c10::VariableVersion(0));  // else that of `stand_in`
  look_dense(copy);
  return copy;
}

Operand Recorder::tensor_operand(const at::Tensor& tensor, Call& call) {
  if (!tensor.defined()) return Value{};
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number() && !owns(tensor)) {
    const PauseTraceGuard pause;  // its value is known, and reading it is not recorded
    return WrappedNumber{tensor.item(), tensor.scalar_type()};
  }
  const FakeTensorImpl* fake = as_fake(stand_in(tensor));
  call.add_device_of(*fake);
  call.any_requires_grad |= graph_.meta(fake->value).requires_grad;
  return fake->value;
}

Operand Recorder::make_operand(const c10::IValue& argument, bool takes_tensor, bool takes_list, Call& call) {
  if (argument.isTensor()) return tensor_operand(argument.toTensor(), call);
  if (takes_tensor && argument.isNone()) return Value{};
  if (!takes_list || argument.isNone()) return argument;
  ValueList values;
  const auto add = [&](const at::Tensor& tensor) {
    Operand operand = tensor_operand(tensor, call);
    DIPTYCH_CHECK(std::holds_alternative<Value>(operand),
                  "[trace] a list of tensors holds a number; make it a tensor of the right dtype first");
    values.push_back(std::get<Value>(operand));
  };
  if (argument.isTensorList()) {
    for (const at::Tensor& tensor : argument.toTensorList()) add(tensor);
  } else {
    for (const std::optional<at::Tensor>& tensor : optional_tensors(argument)) add(tensor.value_or(at::Tensor()));
  }
  return values;
}

void Recorder::wrap_outputs(torch::jit::Stack& stack, size_t begin, const Call& call) {
  const c10::Device device = call.device.value_or(c10::kCPU);
  auto& node = const_cast<Node&>(graph_.nodes().back());
  size_t next = 0;
  const auto wrap = [&](const at::Tensor& meta) -> at::Tensor {
    const Value value = node.outputs[next++];
    return value ? make_fake(meta, device, id_, value) : at::Tensor();
  };
  for (size_t i = begin; i < stack.size(); ++i) {
    if (stack[i].isTensor()) {
      stack[i] = wrap(stack[i].toTensor());
    } else if (stack[i].isTensorList()) {
      c10::List<at::Tensor> wrapped;
      for (const at::Tensor& meta : stack[i].toTensorVector()) wrapped.push_back(wrap(meta));
      stack[i] = std::move(wrapped);
    }
  }
}

// A view that is not the operator that the user calls was taken again by functionalization, or is part of a write-back.
// The call that it belongs to ran earlier and recorded gradients, unless ViewLedger::hides_history() holds.
bool Recorder::gradients_enabled(const c10::OperatorHandle& op, const OperatorPlan& plan) const {
  if (provenance_.records_gradients()) return true;
  return (plan.is_view || plan.is_inverse_view) && front_.schema != &op.schema();
}

// Returns whether the call was recorded as calls of other operators. It may also change the call that is left.
bool Recorder::record_another_way(const c10::OperatorHandle& op, const OperatorPlan& plan, torch::jit::Stack* stack) {
  // An interpreter writes into the memory of operands that are no longer needed, so zeros must have memory.
  static const auto kZeros = c10::Dispatcher::singleton().findSchemaOrThrow("aten::zeros", "");
  switch (plan.trait) {
    case TraceTrait::kHasNoMemory:
      kZeros.callBoxed(stack);
      return true;
    case TraceTrait::kCopiesInto:
      return record_as_copy_of_source(stack);
    case TraceTrait::kReadsResolved:
      // A stand-in has no conjugate bit that resolve_conj() could see, but the value in the graph has one.
      if (is_conjugate_view(*this, as_fake(stack->back().toTensor())->value)) {
        stack->back() = stack->back().toTensor().clone();
      }
      return false;
    case TraceTrait::kCountsInStorage:
      return count_from_operand(*this, op, stack);
    case TraceTrait::kMixesUpBatches:
      expand_factors(stack);
      return false;
    case TraceTrait::kDrawsByIndex:
      return front_.schema != &op.schema() && record_in_memory_order(op, stack);
    default:
      return false;
  }
}

Node Recorder::make_node(const c10::OperatorHandle& op, const OperatorPlan& plan, const torch::jit::Stack& stack,
                         Call& call) {
  const size_t num_arguments = plan.takes_tensor.size();
  const size_t begin = stack.size() - num_arguments;
  Node node{Op(op), {}, {}, {}, {}, {}, gradients_enabled(op, plan)};
  node.operands.reserve(num_arguments);
  for (size_t i = 0; i < num_arguments; ++i) {
    node.operands.push_back(make_operand(stack[begin + i], plan.takes_tensor[i], plan.takes_list[i], call));
  }
  TORCH_CHECK(!call.other_device || takes_several_devices(node.op),
              "Expected all tensors to be on the same device, but found at least two devices, ", *call.of_elements,
              " and ", *call.other_device, "! (when recording ", op.operator_name(), ")");
  if (plan.device_argument >= 0 && stack[begin + plan.device_argument].isDevice()) {
    call.device = stack[begin + plan.device_argument].toDevice();
  }
  const bool records = phase() == Phase::kForward && c10::GradMode::is_enabled();
  call.requires_grad = call.any_requires_grad && records && !plan.stops_gradient;
  return node;
}

void Recorder::record(const c10::OperatorHandle& op, const OperatorPlan& plan, torch::jit::Stack* stack) {
  DIPTYCH_CHECK(!plan.mutates,
                "[trace] {} changes its argument in place and has no functional form; use an out-of-place operator "
                "there",
                with_place(op.operator_name()));
  if (plan.draws_random) GeneratorWatch::check_draw();
  refuse_dtypes_as_eager(op, plan, *stack);
  if (record_another_way(op, plan, stack) || record_numbers(*this, op, plan, stack)) return;
  cast_whole_numbers(*this, op, plan, stack);
  Call call;
  const size_t num_arguments = plan.takes_tensor.size();
  const size_t begin = stack->size() - num_arguments;
  if (plan.trait == TraceTrait::kCasts) check_cast(front_, (*stack)[begin], (*stack)[begin + 1]);
  Node node = make_node(op, plan, *stack, call);
  std::vector<std::optional<TensorMeta>> metas;
  std::vector<at::Tensor> real;
  ResultShape shape;
  const c10::ArrayRef<c10::IValue> arguments(stack->data() + begin, num_arguments);
  const bool is_quick = plan.quick_shape != nullptr && plan.quick_shape(arguments, shape);
  if (is_quick) {
    node.returns.push_back(-1);
    metas.push_back(call.result({shape.dtype, c10::kCPU, Sizes(shape.sizes.begin(), shape.sizes.end()),
                                 Sizes(shape.strides.begin(), shape.strides.end())}));
  } else {
    if (reads_values(plan, *stack) || !run_on_meta(*this, op, plan, stack, call.device.value_or(c10::kCPU))) {
      real = run_on_values(*this, op, plan, stack);
    }
    read_results(*stack, begin, call, node, metas);
  }
  if (!metas.empty() && metas[0]) name_dtype(plan, metas[0]->dtype, node);
  node.provenance = provenance_.current();
  graph_.add_node(std::move(node), std::move(metas));
  if (is_quick) {
    replace_by_fake(*stack, begin, shape, call);
  } else {
    wrap_outputs(*stack, begin, call);
  }
  provenance_.remember(graph_.nodes().back());
  ask_for_results(op, real);
}

void Recorder::ask_for_results(const c10::OperatorHandle& op, const std::vector<at::Tensor>& results) {
  if (results.empty()) return;
  const Node& node = graph_.nodes().back();
  const std::vector<bool> are_numbers = results_in_tensors(op);
  size_t next = 0;
  for (size_t i = 0; i < node.returns.size(); ++i) {
    const Question question = !are_numbers.empty() && are_numbers[i] ? Question::kElements : Question::kSizes;
    const size_t end = next + (node.returns[i] == -1 ? 1 : static_cast<size_t>(std::max(node.returns[i], 0)));
    for (; next < end; ++next) {
      if (!node.outputs[next]) continue;
      asked_.add({node.outputs[next], question, results[next], with_place(op.operator_name())});
    }
  }
}

void Recorder::read_results(const torch::jit::Stack& stack, size_t begin, const Call& call, Node& node,
                            std::vector<std::optional<TensorMeta>>& metas) {
  const auto read = [&](const at::Tensor& meta) {
    DIPTYCH_CHECK(
        !meta.defined() || meta.layout() == c10::kStrided,
        "[trace] {} returns a sparse tensor, as the gradient of an embedding with sparse=True is, which a graph can't "
        "hold; pass sparse=False (sparse(false) in C++), or call the sparse operator outside the traced function",
        with_place(node.op.name()));
    metas.push_back(meta.defined() ? std::optional(call.result(TensorMeta::of(meta))) : std::nullopt);
  };
  for (size_t i = begin; i < stack.size(); ++i) {
    const auto& result = stack[i];
    if (result.isTensor()) {
      node.returns.push_back(-1);
      read(result.toTensor());
    } else if (result.isTensorList()) {
      const auto list = result.toTensorVector();
      node.returns.push_back(static_cast<int32_t>(list.size()));
      for (const at::Tensor& meta : list) read(meta);
    } else {
      node.returns.push_back(-2);
    }
  }
}

void Recorder::replace_by_fake(torch::jit::Stack& stack, size_t begin, const ResultShape& shape, const Call& call) {
  const int64_t storage_size = shape.is_view_of_first ? as_fake(stand_in(stack[begin].toTensor()))->storage_size()
                                                      : c10::multiply_integers(shape.sizes);
  const Value value = graph_.nodes().back().outputs[0];
  c10::IValue result = make_fake(shape, storage_size, call.device.value_or(c10::kCPU), id_, value);
  stack.resize(begin);
  stack.push_back(std::move(result));
}

std::vector<at::Tensor> Recorder::record_hop(Node node, const std::vector<TensorMeta>& results) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  node.provenance = provenance_.current();
  node.grad_enabled = provenance_.records_gradients();
  std::vector<std::optional<TensorMeta>> metas(results.begin(), results.end());
  node.returns.assign(results.size(), -1);
  graph_.add_node(std::move(node), std::move(metas));
  const Node& added = graph_.nodes().back();
  std::vector<at::Tensor> stand_ins;
  for (size_t i = 0; i < results.size(); ++i) {
    const ResultShape shape = make_shape(results[i].size_hints(), results[i].stride_hints(), 0, results[i].dtype);
    stand_ins.push_back(make_stand_in(shape, results[i].device, added.outputs[i]));
  }
  provenance_.remember(added);
  return stand_ins;
}

}  // namespace diptych::detail
