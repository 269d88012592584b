#include "diptych/trace/recorder.h"

#include <ATen/EmptyTensor.h>
#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/alias.h>
#include <ATen/ops/clone.h>
#include <torch/csrc/autograd/node.h>
#include <torch/csrc/autograd/variable.h>

#include <atomic>

#include "diptych/base/error.h"
#include "diptych/trace/dispatch_keys.h"
#include "diptych/trace/exchange_tensors.h"
#include "diptych/trace/generator_watch.h"
#include "diptych/trace/location.h"
#include "diptych/trace/memory_overlap.h"
#include "diptych/trace/meta_kernel.h"
#include "diptych/trace/placeholder.h"
#include "diptych/trace/shape_by_example.h"
#include "diptych/trace/transforms.h"

namespace diptych::detail {
namespace {

// The traces that this thread is inside of, innermost last.
thread_local std::vector<Recorder*> active_recorders;

bool is_active(uint64_t trace_id) {
  return std::any_of(active_recorders.begin(), active_recorders.end(),
                     [&](const Recorder* recorder) { return recorder->id() == trace_id; });
}

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

// A stand-in of another trace may only be met inside that trace.
void check_not_escaped(const at::Tensor& tensor) {
  const FakeTensorImpl* foreign = as_fake(tensor);
  DIPTYCH_CHECK(foreign == nullptr || foreign->trace_id == kNoTrace || is_active(foreign->trace_id),
                "[trace] got a tensor that escaped from a trace that has ended; return it from the traced function "
                "instead of storing it outside");
}

at::Tensor meta_number(at::ScalarType dtype) {
  at::Tensor meta = at::detail::empty_strided_meta({}, {}, dtype);
  meta.unsafeGetTensorImpl()->set_wrapped_number(true);
  return meta;
}

// Functionalization casts what it has computed to the dtype of what it writes to. Kernels that write refuse some casts.
void check_cast(const c10::FunctionSchema* front, const c10::IValue& source, const c10::IValue& dtype) {
  static const Op kCopyInPlace = Op::find("aten.copy_");
  if (front == nullptr || !front->is_mutable() || front == &kCopyInPlace.schema() || !dtype.isInt()) return;
  const auto from = source.toTensor().scalar_type(), to = dtype.toScalarType();
  TORCH_CHECK(c10::canCast(from, to), front->name(), " gives a result of type ", from,
              ", which can't be cast to the desired output type ", to);
}

// A number of the caller's, in a tensor's clothes. A stand-in never is one: the mark is lost where it is wrapped.
bool is_known_number(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->is_wrapped_number() && !is_stand_in(tensor) && !tensor.is_meta();
}

bool is_differentiable(at::ScalarType dtype) { return c10::isFloatingType(dtype) || c10::isComplexType(dtype); }

}  // namespace

// What is learned of a call from its arguments.
struct Recorder::Call {
  std::optional<c10::Device> device;
  bool any_requires_grad = false;
  bool requires_grad = false;  // what comes out, where it is differentiable

  TensorMeta result(TensorMeta meta) const {
    meta.device = device.value_or(c10::kCPU);
    meta.requires_grad = requires_grad && is_differentiable(meta.dtype);
    return meta;
  }
};

Recorder::Recorder(std::string graph_name) : id_(next_trace_id()), graph_(std::move(graph_name)) {
  // A model of some layers fits; moving nodes as the graph grows is a tenth of a large capture's time.
  graph_.reserve(2048);
}

Recorder* Recorder::current() { return active_recorders.empty() ? nullptr : active_recorders.back(); }

bool share_memory_in_traces(const at::Tensor& a, const at::Tensor& b) {
  const auto stood_for = [](const at::Tensor& tensor) {
    std::vector<at::Tensor> found{tensor};
    for (auto recorder = active_recorders.rbegin(); recorder != active_recorders.rend(); ++recorder) {
      const size_t num_inner = found.size();
      for (const auto& primal : (*recorder)->primals()) {
        const auto shares = [&](const at::Tensor& one) { return may_share_memory(one, primal.stand_in); };
        if (std::any_of(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(num_inner), shares)) {
          found.push_back(primal.real);
        }
      }
    }
    return found;
  };
  const auto left = stood_for(a), right = stood_for(b);
  return std::any_of(left.begin(), left.end(), [&](const at::Tensor& one) {
    return std::any_of(right.begin(), right.end(),
                       [&](const at::Tensor& other) { return may_share_memory(one, other); });
  });
}

at::Tensor Recorder::add_input(const at::Tensor& example, Slot slot) {
  check_supported(example, slot.path);
  TensorMeta meta = TensorMeta::of(example);
  const Value value = graph_.add_input(std::move(meta), std::move(slot));
  const ResultShape shape{c10::DimVector(example.sizes()), c10::DimVector(example.strides()), example.storage_offset(),
                          example.scalar_type()};
  const auto storage_size = at::detail::computeStorageNbytes(example.sizes(), example.strides(), /*itemsize=*/1);
  const at::Tensor fake = make_fake(shape, static_cast<int64_t>(storage_size), example.device(), id_, value);
  const at::Tensor stand_in = at::functionalization::impl::to_functional_tensor(fake);
  look_dense(stand_in);
  return stand_in;
}

bool Recorder::owns(const at::Tensor& tensor) const {
  const FakeTensorImpl* fake = as_fake(tensor);
  return fake != nullptr && fake->trace_id == id_;
}

void Recorder::note_transform(std::string why) {
  if (transform_met_.empty()) transform_met_ = std::move(why);
}

const at::Tensor& Recorder::add_primal(const at::Tensor& given, Slot slot) {
  at::Tensor real = given;
  if (const auto why = transform_of(given)) {
    note_transform(fmt::format("'{}' {}", slot.path, *why));
    transformed_.push_back(given);
    real = make_placeholder(logical_meta(given));
  }
  check_not_escaped(real);
  at::Tensor stand_in = add_input(real, slot);
  const auto known = primal_of_.find(given.unsafeGetTensorImpl());
  if (known != primal_of_.end()) {
    const Primal first = primals_[known->second];
    primals_.push_back({real, first.stand_in, first.value, {}, std::move(slot), known->second});
    return primals_.back().stand_in;
  }
  const Value value = as_fake(stand_in)->value;
  primal_of_.emplace(given.unsafeGetTensorImpl(), primals_.size());
  primals_.push_back({real, std::move(stand_in), value, {}, std::move(slot)});
  give_history(primals_.back());
  return primals_.back().stand_in;
}

const at::Tensor& Recorder::stand_in(const at::Tensor& tensor) {
  if (!tensor.defined() || owns(tensor)) return tensor;
  const auto known = primal_of_.find(tensor.unsafeGetTensorImpl());
  if (known != primal_of_.end()) return primals_[known->second].stand_in;
  if (const at::Tensor* alias = joins_aliases_ ? alias_of_primal(tensor) : nullptr) return *alias;
  return add_primal(tensor, {SlotKind::kFreeVariable, fmt::format("free.{}", num_free_variables_++)});
}

at::Tensor Recorder::lift(const at::Tensor& literal) {
  const bool is_literal = !is_stand_in(literal) && literal.layout() == c10::kStrided && literal.has_storage() &&
                          literal.storage().resizable() && literal.storage().use_count() == 1;
  if (!is_literal) return {};
  check_supported(literal, "a literal");
  const ResultShape shape{c10::DimVector(literal.sizes()), c10::DimVector(literal.strides()), literal.storage_offset(),
                          literal.scalar_type()};
  const at::Tensor constant = at::functionalization::impl::to_functional_tensor(
      make_fake(shape, literal.numel(), literal.device(), id_, graph_.add_constant(literal)));
  return at::clone(constant);
}

void Recorder::release_arguments() {
  for (Primal& primal : primals_) {
    if (primal.slot.kind != SlotKind::kArgument && !primal.base_of) continue;
    primal_of_.erase(primal.real.unsafeGetTensorImpl());
    primal.real = at::Tensor();
  }
}

Value Recorder::value_of(const at::Tensor& stand_in) {
  if (!stand_in.defined()) return Value{};
  if (at::functionalization::impl::isFunctionalTensor(stand_in)) at::functionalization::impl::sync(stand_in);
  const FakeTensorImpl* fake = as_fake(stand_in);
  DIPTYCH_ASSERT(fake != nullptr && fake->trace_id == id_, "value_of got a tensor that is not of trace {}", id_);
  return fake->value;
}

Operand Recorder::tensor_operand(const at::Tensor& tensor, Call& call) {
  if (!tensor.defined()) return Value{};
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number() && !owns(tensor)) {
    const PauseTraceGuard pause;  // it is known, and not of the trace
    return WrappedNumber{tensor.item(), tensor.scalar_type()};
  }
  const FakeTensorImpl* fake = as_fake(stand_in(tensor));
  if (!call.device || *call.device == c10::kCPU) call.device = fake->device();
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

void Recorder::exchange_for_meta(torch::jit::Stack& stack, const OperatorPlan& plan) {
  const auto meta_of = [&](const at::Tensor& tensor) -> at::Tensor {
    if (!tensor.defined() || is_known_number(tensor)) return tensor;
    const at::Tensor& meta = as_fake(stand_in(tensor))->meta();
    if (!plan.is_view_as_real || !meta.is_conj()) return meta;
    const at::Tensor resolved = at::alias(meta);  // as what it stands for is: see is_conjugate_view()
    resolved._set_conj(false);
    return resolved;
  };
  exchange_each(plan, stack, meta_of);
  if (plan.device_argument < 0) return;
  stack[stack.size() - plan.takes_tensor.size() + static_cast<size_t>(plan.device_argument)] = c10::Device(c10::kMeta);
}

void Recorder::wrap_outputs(const c10::OperatorHandle& op, torch::jit::Stack& stack, size_t begin, Call& call) {
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

void Recorder::begin_backward(bool create_graph) {
  phase_ = Phase::kBackward;
  create_graph_ = create_graph;
  lost_history_ = {};
}

// Without create_graph the mode is off throughout a backward and says nothing about its parts.
bool Recorder::records_gradients() const {
  return (phase_ == Phase::kBackward && !create_graph_) || c10::GradMode::is_enabled();
}

// A view that is not the operator being called is one that functionalization takes again, or writes back through; the
// call that it belongs to ran earlier, and recorded gradients unless hides_history() says otherwise.
bool Recorder::gradients_enabled(const c10::OperatorHandle& op, const OperatorPlan& plan) const {
  if (records_gradients()) return true;
  return (plan.is_view || plan.is_inverse_view) && front_ != &op.schema();
}

void Recorder::record(const c10::OperatorHandle& op, const OperatorPlan& plan, torch::jit::Stack* stack) {
  DIPTYCH_CHECK(!plan.mutates,
                "[trace] {} in scope '{}' changes its argument in place and has no functional form; "
                "use an out-of-place operator there",
                c10::toString(op.operator_name()), current_place().str());
  // An interpreter writes into operands that die, so zeros must have memory; both operators take the same arguments.
  static const auto kZeros = c10::Dispatcher::singleton().findSchemaOrThrow("aten::zeros", "");
  if (plan.is_zero_tensor) return kZeros.callBoxed(stack);
  if (plan.is_copy && record_as_copy_of_source(stack)) return;
  // Stand-ins have no conjugate bit that resolve_conj() would see; what runs in the graph has.
  if (plan.is_view_as_real && is_conjugate_view(as_fake(stack->back().toTensor())->value))
    stack->back() = stack->back().toTensor().clone();
  if (plan.draws_random) GeneratorWatch::check_draw();
  if (plan.is_bernoulli && record_in_memory_order(op, stack)) return;
  Call call;
  const size_t num_arguments = plan.takes_tensor.size();
  const size_t begin = stack->size() - num_arguments;
  if (plan.is_cast) check_cast(front_, (*stack)[begin], (*stack)[begin + 1]);
  Node node{Op(op), {}, {}, {}, {}, {}, gradients_enabled(op, plan)};
  node.operands.reserve(num_arguments);
  for (size_t i = 0; i < num_arguments; ++i) {
    node.operands.push_back(make_operand((*stack)[begin + i], plan.takes_tensor[i], plan.takes_list[i], call));
  }
  if (plan.device_argument >= 0 && (*stack)[begin + plan.device_argument].isDevice()) {
    call.device = (*stack)[begin + plan.device_argument].toDevice();
  }
  call.requires_grad = call.any_requires_grad && phase_ == Phase::kForward && c10::GradMode::is_enabled();
  std::vector<std::optional<TensorMeta>> metas;
  ResultShape shape;
  const c10::ArrayRef<c10::IValue> arguments(stack->data() + begin, num_arguments);
  const bool is_quick = plan.quick_shape != nullptr && plan.quick_shape(arguments, shape);
  if (is_quick) {
    node.returns.push_back(-1);
    metas.push_back(call.result({shape.dtype, c10::kCPU, Sizes(shape.sizes.begin(), shape.sizes.end()),
                                 Sizes(shape.strides.begin(), shape.strides.end())}));
  } else {
    run_on_meta(op, plan, stack, call);
    read_results(*stack, begin, call, node, metas);
  }
  node.provenance = provenance();
  graph_.add_node(std::move(node), std::move(metas));
  if (is_quick) {
    replace_by_fake(*stack, begin, shape, call);
  } else {
    wrap_outputs(op, *stack, begin, call);
  }
  remember_forward(graph_.nodes().back());
}

// Note [Numbers among tensors]: a number that stands where a tensor is expected is a tensor of the CPU, with a mark by
// which types are promoted as for numbers. Shape functions and kernels of C++ take it as a meta tensor with that mark.
// Kernels of Python lose the mark, or refuse two devices; for LibTorch's own operators, the kernel itself is asked,
// with the number that it is.
void Recorder::run_on_meta(const c10::OperatorHandle& op, const OperatorPlan& plan, torch::jit::Stack* stack,
                           const Call& call) {
  const c10::impl::ExcludeDispatchKeyGuard guard(kNotOnMeta);
  exchange_for_meta(*stack, plan);
  const size_t begin = stack->size() - plan.takes_tensor.size();
  c10::SmallVector<std::pair<size_t, at::Tensor>, 1> numbers;
  for (size_t i = begin; i < stack->size(); ++i) {
    auto& argument = (*stack)[i];
    if (!argument.isTensor() || !argument.toTensor().defined() || !is_known_number(argument.toTensor())) continue;
    numbers.emplace_back(i, argument.toTensor());
    argument = meta_number(argument.toTensor().scalar_type());
  }
  if (plan.shape != nullptr && plan.shape(op, *stack)) return;
  const bool is_of_python = plan.has_python_meta_kernel && !numbers.empty();
  if (plan.has_meta_kernel && !is_of_python && run_meta_kernel(op, plan.meta_kernel, stack)) return;
  for (const auto& [i, number] : numbers) (*stack)[i] = number;
  if (is_of_python && !plan.is_native && run_meta_kernel(op, plan.meta_kernel, stack)) return;
  run_shape_by_example(op, stack, call.device.value_or(c10::kCPU));
}

void Recorder::read_results(const torch::jit::Stack& stack, size_t begin, const Call& call, Node& node,
                            std::vector<std::optional<TensorMeta>>& metas) {
  const auto read = [&](const at::Tensor& meta) {
    DIPTYCH_CHECK(!meta.defined() || meta.layout() == c10::kStrided,
                  "[trace] {} in scope '{}' gives a sparse tensor, such as the gradient of an embedding that was made "
                  "with sparse=True, which a graph can't hold; make it with sparse=False (sparse(false) in C++), or "
                  "call what is sparse outside the traced function",
                  node.op.name(), current_place().str());
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

// Modes and hooks that are active round the outermost trace are the caller's, and not of what is traced: a backward may
// be traced in the middle of them. Those that the traced function enters are its own.
TraceGuard::TraceGuard(Recorder& recorder)
    : saved_keys_(c10::impl::tls_local_dispatch_key_set()),
      saved_hooks_(at::SavedTensorDefaultHooks::get_tls_state()),
      saved_reapply_views_(at::functionalization::impl::getFunctionalizationReapplyViewsTLS()) {
  auto keys = saved_keys_;
  const c10::DispatchKeySet traced({kFakeKey, kFrontKey, c10::DispatchKey::Functionalize});
  if (active_recorders.empty()) {
    keys.included_ = keys.included_ & c10::default_included_set;
    at::SavedTensorDefaultHooks::set_tls_state({});
  }
  keys.included_ = keys.included_ | traced;
  keys.excluded_ = keys.excluded_ - traced;
  c10::impl::_force_tls_local_dispatch_key_set(keys);
  at::functionalization::impl::setFunctionalizationReapplyViewsTLS(true);
  active_recorders.push_back(&recorder);
  link_dispatch_kernels();
}

TraceGuard::~TraceGuard() {
  active_recorders.pop_back();
  at::SavedTensorDefaultHooks::set_tls_state(saved_hooks_);
  at::functionalization::impl::setFunctionalizationReapplyViewsTLS(saved_reapply_views_);
  c10::impl::_force_tls_local_dispatch_key_set(saved_keys_);
  if (!active_recorders.empty()) return;
  // Autocast keeps casts of leaves by tensor; those of stand-ins must not live on.
  at::autocast::clear_cache();
  release_fakes();
}

PauseTraceGuard::PauseTraceGuard() : saved_keys_(c10::impl::tls_local_dispatch_key_set()) {
  auto keys = saved_keys_;
  keys.included_ = keys.included_ - c10::DispatchKeySet({kFakeKey, kFrontKey, c10::DispatchKey::Functionalize});
  c10::impl::_force_tls_local_dispatch_key_set(keys);
}

PauseTraceGuard::~PauseTraceGuard() { c10::impl::_force_tls_local_dispatch_key_set(saved_keys_); }

}  // namespace diptych::detail
