#include "diptych/compile/compiled_function.h"

#include <ATen/ops/as_strided.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>
#include <atomic>

#include <set>

#include "diptych/base/error.h"
#include "diptych/base/switches.h"
#include "diptych/compile/backends.h"
#include "diptych/compile/pair_node.h"
#include "diptych/compile/pipeline.h"
#include "diptych/compile/second_order.h"
#include "diptych/compile/sized_functions.h"
#include "diptych/compile/slot_fit.h"
#include "diptych/interpreter/run_guards.h"
#include "diptych/ops/tags.h"
#include "diptych/passes/storage_roots.h"

namespace diptych {
namespace {

namespace ag = torch::autograd;

Compiler choose_compiler(const AotOptions& options, const Compiler& custom, const char* role) {
  return custom ? checked_compiler(custom, role) : compiler_of(backend_by_name(options.backend));
}

// Per tangent, the strides to insist on: those of the trace if a node that depends on strides can see them.
std::vector<std::optional<WantedStrides>> strides_to_keep(const Graph& backward, size_t num_tangents) {
  std::vector<std::optional<WantedStrides>> wanted(num_tangents);
  const size_t first = backward.inputs().size() - num_tangents;
  for (size_t i = 0; i < num_tangents; ++i) {
    const Value tangent = backward.inputs()[first + i];
    if (!detail::strides_matter(backward, tangent)) continue;
    const TensorMeta& meta = backward.meta(tangent);
    wanted[i] = WantedStrides{meta.stride_hints(), !meta.is_static()};
  }
  return wanted;
}

// Which of the first `count` inputs some node or output reads.
std::vector<bool> read_inputs(const Graph& graph, size_t count) {
  std::vector<bool> is_read(graph.num_values());
  for (const Node& node : graph.nodes()) for_each_operand_value(node, [&](Value value) { is_read[value.id] = true; });
  for (const Value output : graph.outputs()) {
    if (output) is_read[output.id] = true;
  }
  std::vector<bool> found;
  for (size_t i = 0; i < count; ++i) found.push_back(is_read[graph.inputs()[i].id]);
  return found;
}

// The tensor as one of its own: no other handle of this call may receive the history that is set on it.
void make_sole_owner(at::Tensor& tensor) {
  if (tensor.use_count() > 1) tensor = tensor.tensor_data();
}

// A compiler may have made it a tensor of its own; then there is nothing to guard.
void mark_as_view_of_function(at::Tensor& tensor, const at::Tensor& base) {
  if (!tensor.is_alias_of(base)) return;
  tensor = ag::as_view(base, tensor, /*is_bw_differentiable=*/true, /*is_fw_differentiable=*/false, nullptr, nullptr,
                       ag::CreationMeta::IN_CUSTOM_FUNCTION);
}

void apply_mutation(const MutationPlan& mutation, const at::Tensor& primal, const at::Tensor& new_value) {
  const at::AutoGradMode mode(!mutation.under_no_grad && c10::GradMode::is_enabled());
  if (mutation.geometry) {
    const auto& geometry = *mutation.geometry;
    primal.as_strided_(geometry.sizes, geometry.strides, primal.storage_offset() + geometry.offset);
  }
  if (mutation.data) primal.copy_(new_value);
}

at::Tensor strided_alias(const OutputPlan& output, const at::Tensor& origin) {
  const at::AutoGradMode mode(!output.under_no_grad && c10::GradMode::is_enabled());
  // Another tensor of the storage may have a history that this output has no part in.
  const at::Tensor start = output.requires_grad ? origin : origin.detach();
  const auto& [sizes, strides, offset] = output.geometry;
  const at::Tensor view = start.as_strided(sizes, strides, origin.storage_offset() + offset);
  return output.is_view ? view : view.detach();
}

}  // namespace

uint64_t CompiledFunction::next_serial_number() {
  static std::atomic<uint64_t> next{0};
  return next++;
}

CompiledFunction::CompiledFunction(const FlatFunction& function, const std::vector<at::Tensor>& arguments,
                                   const std::vector<std::string>& paths, AotOptions options,
                                   const SimplifyOptions& simplify)
    : options_(std::move(options)),
      simplify_(simplify),
      capture_(std::make_shared<JointCapture>(function, arguments, paths, CaptureOptions{options_.name, false})) {
  Joint joint = prepare_joint(capture_joint(), options_);
  layout_ = joint.layout;
  free_variables_ = capture_->free_variables();
  for (const auto& derived : plan().derived) free_variables_[derived.free_variable] = at::Tensor();
  capture_->release_arguments();
  split_ = split_joint(joint, options_.partition);
  is_mutated_.resize(layout_.num_primals());
  std::vector<size_t> mutated;
  for (const auto& mutation : plan().mutations) {
    is_mutated_[mutation.primal] = true;
    if (mutation.data) mutated.push_back(mutation.primal);
    if (mutation.geometry) reshaped_.push_back(mutation.primal);
  }
  forward_ = finish_forward(split_.forward, mutated, simplify_);
  draws_random_ = std::any_of(forward_.nodes().begin(), forward_.nodes().end(), diptych::draws_random);
  if (!plan().epilogue_inputs.empty()) epilogue_ = std::make_unique<Program>(plan().epilogue);
  compile_forward();
  log(Log::kPartition, "{}", explain(split_));
  if (!is_differentiable()) return;
  find_residual_sources();
  find_gradient_primals(joint);
  const auto defined = traceable_tangents();
  GlobalState state;  // the first variant is traced with autocast off, where backward passes usually run
  variants_.push_back({defined, state, make_variant(std::move(joint), defined)});
}

// What is true of one of the captures, but for its graphs, is true of all.
CompiledFunction::CompiledFunction(std::shared_ptr<const SizedFunctions> sized)
    : options_(sized->first().options_),
      sized_(std::move(sized)),
      capture_(sized_->first().capture_),
      layout_(sized_->first().layout_),
      split_(sized_->first().split_),
      forward_(sized_->forward()),
      free_variables_(sized_->first().free_variables_),
      gradient_primals_(sized_->first().gradient_primals_),
      is_mutated_(sized_->first().is_mutated_),
      reshaped_(sized_->first().reshaped_),
      residual_sources_(sized_->first().residual_sources_),
      draws_random_(sized_->first().draws_random_),
      tangent_errors_(sized_->first().tangent_errors_) {
  if (!plan().epilogue_inputs.empty()) epilogue_ = std::make_unique<Program>(sized_->epilogue());
  compile_forward();
}

CompiledFunction::~CompiledFunction() = default;

void CompiledFunction::compile_forward() {
  const bool differentiable = is_differentiable();
  forward_executable_ =
      choose_compiler(options_, differentiable ? options_.forward_compiler : options_.inference_compiler,
                      differentiable ? "forward" : "inference")(forward_);
  log(Log::kGraphs, "{}", forward_.code());
}

std::vector<bool> CompiledFunction::traceable_tangents() const {
  std::vector<bool> traceable;
  for (const auto& error : tangent_errors_) traceable.push_back(!error);
  return traceable;
}

Joint CompiledFunction::joint(const std::vector<bool>& defined) const {
  return sized_ ? sized_->joint(defined) : capture_->joint(defined, /*create_graph=*/true);
}

Joint CompiledFunction::capture_joint() {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const size_t num_tangents = plan().differentiable.size();
  tangent_errors_.resize(num_tangents);
  try {
    return capture_->joint();
  } catch (const c10::Error&) {
    // Eager would throw this at a backward that comes through the tangent at fault, which may never happen.
    std::vector<bool> traceable(num_tangents);
    for (size_t i = 0; i < num_tangents; ++i) {
      std::vector<bool> alone(num_tangents);
      alone[i] = true;
      try {
        capture_->joint(alone);
        traceable[i] = true;
      } catch (const c10::Error&) {
        tangent_errors_[i] = std::current_exception();
      }
    }
    return capture_->joint(traceable);
  }
}

void CompiledFunction::find_residual_sources() {
  const auto roots = detail::storage_roots(forward_);
  std::map<Value, ResidualSource> sources;
  const size_t num_outputs = layout_.num_forward_outputs();
  for (size_t i = 0; i < forward_.inputs().size(); ++i) {
    sources.emplace(forward_.inputs()[i], ResidualSource{ResidualSource::Kind::kPrimal, i});
  }
  for (size_t i = 0; i < num_outputs; ++i) {
    // New values of mutated primals are copied out of their slot, so nobody else holds it.
    if (!forward_.outputs()[i] || forward_.output_slots()[i].kind == SlotKind::kMutated) continue;
    sources.emplace(roots[forward_.outputs()[i].id], ResidualSource{ResidualSource::Kind::kOutput, i});
  }
  for (size_t i = num_outputs; i < forward_.outputs().size(); ++i) {
    const auto found = sources.find(roots[forward_.outputs()[i].id]);
    residual_sources_.push_back(found == sources.end() ? ResidualSource{} : found->second);
  }
}

void CompiledFunction::find_gradient_primals(const Joint& joint) {
  const Graph& graph = joint.graph;
  std::vector<bool> needed(graph.num_values());
  for (size_t i = layout_.num_forward_outputs(); i < graph.outputs().size(); ++i) {
    if (graph.outputs()[i]) needed[graph.outputs()[i].id] = true;
  }
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    const bool is_needed = std::any_of(node.outputs.begin(), node.outputs.end(),
                                       [&](Value output) { return output && needed[output.id]; });
    // Every draw is repeated in order, so what any of them reads is needed.
    if (is_needed || diptych::draws_random(node)) {
      for_each_operand_value(node, [&](Value value) { needed[value.id] = true; });
    }
  }
  for (size_t i = 0; i < layout_.num_primals(); ++i) {
    if (needed[graph.inputs()[i].id]) gradient_primals_.push_back(i);
  }
}

std::shared_ptr<BackwardVariant> CompiledFunction::make_variant(Joint joint, const std::vector<bool>& defined) const {
  auto variant = std::make_shared<BackwardVariant>();
  variant->defined = defined;
  variant->joint = std::move(joint);
  return variant;
}

Graph CompiledFunction::graph_of(const BackwardVariant& variant, const SimplifyOptions& simplify) const {
  // A captured backward asks for it in the middle of a trace; nothing that is computed here is part of that.
  const detail::PauseTraceGuard real;
  return sized_ ? sized_->backward(variant.defined, simplify)
                : finish_backward(split_backward(variant.joint, split_.saved), simplify);
}

void CompiledFunction::finish_variant(BackwardVariant& variant) const {
  variant.graph = graph_of(variant, simplify_);
  variant.executable = choose_compiler(options_, options_.backward_compiler, "backward")(variant.graph);
  variant.reads_residual = read_inputs(variant.graph, split_.saved.size());
  variant.wanted_strides = strides_to_keep(variant.graph, layout_.num_tangents);
  log(Log::kBackward, "{}: backward compiled, {} nodes", options_.name, variant.graph.nodes().size());
  log(Log::kGraphs, "{}", variant.graph.code());
}

std::shared_ptr<const BackwardVariant> CompiledFunction::backward(const std::vector<bool>& defined) const {
  for (size_t i = 0; i < defined.size(); ++i) {
    if (defined[i] && tangent_errors_[i]) std::rethrow_exception(tangent_errors_[i]);
  }
  const GlobalState state = GlobalState::current();
  const std::lock_guard<std::mutex> lock(variants_mutex_);
  std::shared_ptr<BackwardVariant> found;
  for (const auto& known : variants_) {
    if (known.defined == defined && known.state.same_autocast(state)) found = known.variant;
  }
  if (!found) {
    log(Log::kBackward, "{}: tracing a backward for tangents {}", options_.name, fmt::join(defined, ","));
    found = make_variant(sized_ ? Joint() : prepare_joint(capture_->joint(defined), options_), defined);
    variants_.push_back({defined, state, found});
  }
  if (!found->executable) finish_variant(*found);
  return found;
}

std::shared_ptr<const Program> CompiledFunction::inlined(const BackwardVariant& variant) const {
  const std::lock_guard<std::mutex> lock(variants_mutex_);
  if (!variant.inlined) {
    variant.inlined = std::make_shared<const Program>(graph_of(variant, {.fold_constants = false}));
  }
  return variant.inlined;
}

std::shared_ptr<SecondOrder> CompiledFunction::second_order(const BackwardVariant& variant) const {
  const std::lock_guard<std::mutex> lock(variants_mutex_);
  if (!variant.second_order) {
    variant.second_order =
        std::make_shared<SecondOrder>(joint(variant.defined), variant.defined, gradient_primals_, options_);
  }
  return variant.second_order;
}

std::vector<at::Tensor> CompiledFunction::primals_of(c10::ArrayRef<const at::Tensor*> arguments) const {
  std::vector<at::Tensor> primals;
  primals.reserve(arguments.size() + free_variables_.size());
  for (const at::Tensor* argument : arguments) primals.push_back(*argument);
  primals.insert(primals.end(), free_variables_.begin(), free_variables_.end());
  for (const auto& derived : plan().derived) {
    primals[arguments.size() + derived.free_variable] = detail::autograd_base(primals[derived.base_of]);
  }
  for (const size_t part : plan().parts) {
    DIPTYCH_CHECK(!primals[part].retains_grad() && ag::impl::hooks(primals[part]).empty(),
                  "[{}] argument {} has hooks or retains its gradient, and is a view of a tensor that other arguments "
                  "share and the function changes, so that gradients pass it by; take the hooks off",
                  options_.name, part);
  }
  return primals;
}

std::vector<at::Tensor> CompiledFunction::call(c10::ArrayRef<const at::Tensor*> arguments) const {
  const std::vector<at::Tensor> primals = primals_of(arguments);
  const bool differentiable = is_differentiable();
  c10::intrusive_ptr<PairNode> node;
  std::vector<at::Tensor> generator_states;
  if (differentiable) {
    node = c10::make_intrusive<PairNode>(shared_from_this());
    ag::edge_list edges;
    edges.reserve(primals.size());
    for (const at::Tensor& primal : primals) {
      edges.push_back(primal.requires_grad() ? ag::impl::gradient_edge(primal) : ag::Edge());
    }
    node->set_next_edges(std::move(edges));
    if (draws_random_) generator_states = save_generator_states(forward_);
  }
  std::vector<at::Tensor> slots;
  {
    const RunBelowAutograd guard;
    std::vector<at::Tensor> inputs = primals;
    // A residual keeps the shape that the backward expects.
    for (const size_t primal : reshaped_) inputs[primal] = primals[primal].tensor_data();
    slots = forward_executable_->run(std::move(inputs));
  }
  std::vector<at::Tensor> residuals(
      std::make_move_iterator(slots.begin() + static_cast<int64_t>(layout_.num_forward_outputs())),
      std::make_move_iterator(slots.end()));
  slots.resize(layout_.num_forward_outputs());
  for (const size_t slot : plan().differentiable) make_sole_owner(slots[slot]);
  for (const auto& view : plan().function_views) {
    const at::Tensor& base = view.base.is_primal ? primals[view.base.index] : slots[view.base.index];
    make_sole_owner(slots[view.slot]);
    mark_as_view_of_function(slots[view.slot], base);
  }
  for (const size_t slot : plan().differentiable) ag::set_history(slots[slot], node);
  std::vector<at::Tensor> gradient_primals;
  for (const size_t index : gradient_primals_) {
    // What a later derivative starts from is the primal as it was, with the history that it had.
    gradient_primals.push_back(is_mutated_[index] ? primals[index].clone() : primals[index]);
  }
  for (const auto& mutation : plan().mutations) {
    apply_mutation(mutation, primals[mutation.primal], mutation.data ? slots[mutation.slot] : at::Tensor());
  }
  if (node) node->save(primals, slots, std::move(residuals), std::move(gradient_primals), std::move(generator_states));
  return make_outputs(primals, std::move(slots));
}

std::vector<at::Tensor> CompiledFunction::make_outputs(const std::vector<at::Tensor>& primals,
                                                       std::vector<at::Tensor>&& slots) const {
  for (const size_t leaf : plan().fresh_leaves) slots[leaf].set_requires_grad(true);
  std::vector<at::Tensor> views;
  if (epilogue_) {
    std::vector<at::Tensor> bases;
    for (const auto& input : plan().epilogue_inputs)
      bases.push_back(input.is_primal ? primals[input.index] : slots[input.index]);
    views = epilogue_->run(std::move(bases), {.differentiable = true});
  }
  std::vector<at::Tensor> outputs(plan().outputs.size());
  using Kind = OutputPlan::Kind;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const OutputPlan& output = plan().outputs[i];
    switch (output.kind) {
      case Kind::kSlot:
        outputs[i] = slots[i];
        break;
      case Kind::kPrimal:
        outputs[i] = primals[output.index];
        break;
      case Kind::kPrimalData:
        outputs[i] = primals[output.index].detach();
        break;
      case Kind::kOfPrimal:
        outputs[i] = strided_alias(output, primals[output.index]);
        break;
      case Kind::kOfSlot:
        outputs[i] = strided_alias(output, slots[output.index]);
        break;
      case Kind::kSame:
        outputs[i] = outputs[output.index];
        break;
      case Kind::kRegenerated:
        outputs[i] = views[output.index];
        break;
    }
    if (output.retains_grad) outputs[i].retain_grad();
  }
  return outputs;
}

}  // namespace diptych
