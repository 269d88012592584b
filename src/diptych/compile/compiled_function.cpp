#include "diptych/compile/compiled_function.h"

#include <ATen/ops/as_strided.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>
#include <atomic>

#include <set>

#include "diptych/base/error.h"
#include "diptych/base/switches.h"
#include "diptych/compile/backends.h"
#include "diptych/compile/check_slots.h"
#include "diptych/compile/pipeline.h"
#include "diptych/compile/release_rules.h"
#include "diptych/compile/result_links.h"
#include "diptych/compile/second_order.h"
#include "diptych/compile/sized_functions.h"
#include "diptych/interpreter/run_guards.h"
#include "diptych/ops/tags.h"
#include "diptych/passes/remove_dead_nodes.h"
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

bool is_of_slot(const ForwardPlan::Crossing& crossing) {
  return crossing.kind == ForwardPlan::Crossing::Kind::kSlot || crossing.kind == ForwardPlan::Crossing::Kind::kLeaf;
}

// What a crossing stands for in a joint graph as it was traced.
Value value_in(const Graph& joint, const ForwardPlan::Crossing& crossing) {
  return is_of_slot(crossing) ? joint.outputs()[crossing.index] : crossing.value;
}

// The values that gradients depend on.
std::vector<bool> needed_for_gradients(const Joint& joint) {
  const Graph& graph = joint.graph;
  std::vector<bool> needed(graph.num_values());
  for (size_t i = joint.layout.num_forward_outputs(); i < graph.outputs().size(); ++i) {
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
  return needed;
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
                                   const std::vector<std::string>& paths, AotOptions options, CaptureExtent extent)
    : options_(std::move(options)),
      extent_(extent),
      simplify_{.fold_constants = extent == CaptureExtent::kCallable},
      capture_(std::make_shared<JointCapture>(function, arguments, paths,
                                              CaptureOptions{options_.name, false, /*stages=*/true})) {
  Joint joint = capture_joint();
  layout_ = joint.layout;
  host_reads_ = capture_->host_reads();
  if (extent != CaptureExtent::kCallable) traced_graph_ = remove_dead_nodes(joint.graph);
  free_variables_ = capture_->free_variables();
  for (const auto& derived : plan().derived) free_variables_[derived.free_variable] = at::Tensor();
  capture_->release_arguments();
  if (extent != CaptureExtent::kTrace) make_graphs(prepare_joint(std::move(joint), options_));
}

void CompiledFunction::make_graphs(Joint joint) {
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
  find_stages();
  const auto defined = traceable_tangents();
  // The first variant is traced with autocast off, where backward passes usually run.
  variants_.push_back({defined, {}, GlobalState::without_autocast(), make_variant(std::move(joint), defined)});
}

// What is true of one of the captures, but for its graphs, is true of all.
CompiledFunction::CompiledFunction(std::shared_ptr<const SizedFunctions> sized)
    : options_(sized->first().options_),
      sized_(std::move(sized)),
      capture_(sized_->first().capture_),
      layout_(sized_->first().layout_),
      split_(sized_->first().split_),
      host_reads_(sized_->first().host_reads_),
      forward_(sized_->forward()),
      free_variables_(sized_->first().free_variables_),
      gradient_primals_(sized_->first().gradient_primals_),
      gradient_crossings_(sized_->first().gradient_crossings_),
      tangents_of_stage_(sized_->first().tangents_of_stage_),
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
  if (extent_ != CaptureExtent::kCallable) return;
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
  const size_t num_tangents = plan().num_tangents();
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
  const auto needed = needed_for_gradients(joint);
  for (size_t i = 0; i < layout_.num_primals(); ++i) {
    if (needed[graph.inputs()[i].id]) gradient_primals_.push_back(i);
  }
  using Kind = ForwardPlan::Crossing::Kind;
  for (size_t i = 0; i < plan().crossings.size(); ++i) {
    const auto& crossing = plan().crossings[i];
    if (crossing.kind == Kind::kHidden) continue;
    // Passes number other values anew.
    if (!is_of_slot(crossing) || needed[graph.outputs()[crossing.index].id]) gradient_crossings_.push_back(i);
  }
}

bool CompiledFunction::starts_at(size_t index, size_t stage) const {
  const auto& crossing = plan().crossings[index];
  if (is_own_result(index, stage)) return true;
  const auto& leads_to = plan().leads_to[stage];
  // Graphs for several sizes number other values anew.
  return leads_to[leads_to.size() - plan().crossings.size() + index] && (is_of_slot(crossing) || !sized_);
}

// As in eager, what has saved its own result hands the gradient of the gradient to that.
bool CompiledFunction::is_own_result(size_t index, size_t stage) const {
  const auto& crossing = plan().crossings[index];
  return crossing.kind == ForwardPlan::Crossing::Kind::kSlot && crossing.stage == stage &&
         crossing.index < plan().outputs.size();
}

void CompiledFunction::find_stages() {
  tangents_of_stage_.resize(plan().num_stages);
  for (size_t i = 0; i < plan().num_tangents(); ++i) tangents_of_stage_[plan().stage_of_tangent[i]].push_back(i);
}

const std::vector<TensorMeta>& CompiledFunction::hidden_metas() const {
  return sized_ ? sized_->hidden_metas() : plan().hidden;
}

// Of functions with dynamic sizes, all captures keep alike.
const ReleaseRules& CompiledFunction::release_rules() const {
  if (sized_) return sized_->first().release_rules();
  std::call_once(rules_made_, [&] {
    const std::lock_guard<std::mutex> lock(variants_mutex_);
    release_rules_ = std::make_unique<ReleaseRules>(capture_->saving_nodes(), variants_.front().variant->joint,
                                                    split_.saved, gradient_primals_);
  });
  return *release_rules_;
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
  variant.has_graph = true;
  if (extent_ != CaptureExtent::kCallable) return;
  compile_variant(variant);
}

void CompiledFunction::compile_variant(BackwardVariant& variant) const {
  variant.executable = choose_compiler(options_, options_.backward_compiler, "backward")(variant.graph);
  variant.reads_residual = read_inputs(variant.graph, split_.saved.size());
  variant.wanted_strides = strides_to_keep(variant.graph, layout_.num_tangents);
  log(Log::kBackward, "{}: backward compiled, {} nodes", options_.name, variant.graph.nodes().size());
  log(Log::kGraphs, "{}", variant.graph.code());
}

// Requires: the mutex is held.
std::shared_ptr<BackwardVariant> CompiledFunction::find_variant(const std::vector<bool>& defined,
                                                                const std::vector<bool>& gradients,
                                                                const GlobalState& state) const {
  for (const auto& known : variants_) {
    if (known.defined == defined && known.gradients == gradients && known.state.same_for_backward(state)) {
      return known.variant;
    }
  }
  return nullptr;
}

std::shared_ptr<const BackwardVariant> CompiledFunction::backward(const std::vector<bool>& defined) const {
  for (size_t i = 0; i < defined.size(); ++i) {
    if (defined[i] && tangent_errors_[i]) std::rethrow_exception(tangent_errors_[i]);
  }
  const GlobalState state = GlobalState::current();
  const std::lock_guard<std::mutex> lock(variants_mutex_);
  auto found = find_variant(defined, {}, state);
  if (!found) {
    log(Log::kBackward, "{}: tracing a backward for tangents {}", options_.name, fmt::join(defined, ","));
    found = make_variant(sized_ ? Joint() : prepare_joint(capture_->joint(defined), options_), defined);
    variants_.push_back({defined, {}, state, found});
  }
  if (!found->has_graph) finish_variant(*found);
  return found;
}

std::shared_ptr<const BackwardVariant> CompiledFunction::backward_part(const std::vector<bool>& defined,
                                                                       const std::vector<bool>& gradients) const {
  auto whole = backward(defined);
  if (gradients.empty()) return whole;
  const GlobalState state = GlobalState::current();
  const std::lock_guard<std::mutex> lock(variants_mutex_);
  auto found = find_variant(defined, gradients, state);
  if (found) return found;
  found = std::make_shared<BackwardVariant>();
  found->defined = defined;
  found->graph = whole->graph;
  std::vector<Value> outputs = found->graph.outputs();
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!gradients[i]) outputs[i] = Value{};
  }
  std::vector<Slot> slots = found->graph.output_slots();
  found->graph.set_outputs(std::move(outputs), std::move(slots));
  found->graph = remove_dead_nodes(found->graph);
  found->has_graph = true;
  compile_variant(*found);
  variants_.push_back({defined, gradients, state, found});
  return found;
}

std::shared_ptr<const Program> CompiledFunction::inlined(const BackwardVariant& variant) const {
  const std::lock_guard<std::mutex> lock(variants_mutex_);
  if (!variant.inlined) {
    variant.inlined = std::make_shared<const Program>(graph_of(variant, {.fold_constants = false}));
  }
  return variant.inlined;
}

std::shared_ptr<SecondOrder> CompiledFunction::second_order(const BackwardVariant& variant, size_t stage) const {
  const std::lock_guard<std::mutex> lock(variants_mutex_);
  if (!variant.second_order) {
    Joint again = joint(variant.defined);
    const auto needed = needed_for_gradients(again);
    std::vector<Value> starts;
    if (sized_) starts.push_back(sized_->add_sizes(again.graph, SlotKind::kArgument));
    const auto add = [&](Value value, bool is_possible) {
      variant.starts.push_back(is_possible && needed[value.id]);
      if (variant.starts.back()) starts.push_back(value);
    };
    for (const size_t primal : gradient_primals_) add(again.graph.inputs()[primal], true);
    const size_t num_primals = starts.size();
    for (const size_t crossing : gradient_crossings_) {
      add(value_in(again.graph, plan().crossings[crossing]), starts_at(crossing, stage));
    }
    variant.second_order = std::make_shared<SecondOrder>(again, variant.defined, starts, num_primals, options_);
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

std::vector<at::Tensor> CompiledFunction::written(c10::ArrayRef<const at::Tensor*> arguments) const {
  const std::vector<at::Tensor> primals = primals_of(arguments);
  std::vector<at::Tensor> found;
  for (const MutationPlan& mutation : plan().mutations) {
    if (mutation.data) found.push_back(primals.at(mutation.primal));
  }
  return found;
}

detail::HostState CompiledFunction::host_state() const {
  detail::HostState state;
  for (const auto& reads : host_reads_) state.emplace_back(reads, reads->hash());
  return state;
}

std::vector<at::Tensor> CompiledFunction::call(c10::ArrayRef<const at::Tensor*> arguments) const {
  const std::vector<at::Tensor> primals = primals_of(arguments);
  ResultLinks links(*this, primals);
  std::vector<at::Tensor> generator_states;
  if (is_differentiable() && draws_random_) generator_states = save_generator_states(forward_);
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
  std::vector<at::Tensor> gradient_primals;
  for (const size_t index : gradient_primals_) {
    // What a later derivative starts from is the primal as it was, with the history that it had.
    gradient_primals.push_back(is_mutated_[index] ? primals[index].clone() : primals[index]);
  }
  links.link(slots, residuals);
  links.save(slots, std::move(residuals), std::move(gradient_primals), std::move(generator_states));
  return make_outputs(primals, slots, std::move(links.made()));
}

std::vector<at::Tensor> CompiledFunction::make_views(const std::vector<at::Tensor>& primals,
                                                     const std::vector<at::Tensor>& slots) const {
  if (!epilogue_) return {};
  std::vector<at::Tensor> bases;
  for (const auto& input : plan().epilogue_inputs) {
    bases.push_back(input.is_primal ? primals[input.index] : slots[input.index]);
  }
  return epilogue_->run(std::move(bases), {.differentiable = true});
}

at::Tensor CompiledFunction::make_output(size_t index, const std::vector<at::Tensor>& primals,
                                         const std::vector<at::Tensor>& slots) const {
  const OutputPlan& output = plan().outputs[index];
  if (output.kind == OutputPlan::Kind::kOfPrimal) return strided_alias(output, primals[output.index]);
  if (output.kind == OutputPlan::Kind::kOfSlot) return strided_alias(output, slots[output.index]);
  return make_views(primals, slots)[output.index];
}

std::vector<at::Tensor> CompiledFunction::make_outputs(const std::vector<at::Tensor>& primals,
                                                       const std::vector<at::Tensor>& slots,
                                                       std::vector<at::Tensor>&& made) const {
  const std::vector<at::Tensor> views = make_views(primals, slots);
  std::vector<at::Tensor> outputs = std::move(made);
  outputs.resize(plan().outputs.size());
  using Kind = OutputPlan::Kind;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const OutputPlan& output = plan().outputs[i];
    if (outputs[i].defined()) {
      if (output.retains_grad) outputs[i].retain_grad();
      continue;
    }
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
    if (output.is_own_leaf) outputs[i].set_requires_grad(true);
    if (output.retains_grad) outputs[i].retain_grad();
  }
  return outputs;
}

}  // namespace diptych
