#include "diptych/compile/compiled_function.h"

#include <ATen/ops/as_strided.h>
#include <fmt/ranges.h>
#include <atomic>

#include "diptych/autodiff/generator_states.h"
#include "diptych/autodiff/inner_backward.h"
#include "diptych/backend/background_compile.h"
#include "diptych/backends/builtin_backends.h"
#include "diptych/base/check.h"
#include "diptych/base/list.h"
#include "diptych/base/log.h"
#include "diptych/compile/check_slots.h"
#include "diptych/compile/result_links.h"
#include "diptych/compile/second_order.h"
#include "diptych/interpreter/profiled_range.h"
#include "diptych/interpreter/run_guards.h"
#include "diptych/passes/remove_dead_nodes.h"
#include "diptych/passes/reuse_results.h"

namespace diptych::detail {
namespace {

Compiler choose_compiler(const AotOptions& options, const Compiler& custom, const char* role) {
  if (!custom) {
    const Compiler compile = compiler_of(backend_of(options));
    return options.async_compile ? in_background(compile, options.backend) : compile;
  }
  DIPTYCH_CHECK(!draws_on_device(options.draws, options.name),
                "[{}] got draws 'device' and a {} compiler, which draws as it likes; leave out one of them",
                options.name, role);
  return checked_compiler(custom, role);
}

bool may_be_interpreted(const AotOptions& options) {
  return !options.forward_compiler && !options.backward_compiler &&
         backend_by_name(options.backend, options.draws)->may_be_interpreted();
}

// Returns, per tangent, the strides to insist on: those of the trace if a node that depends on strides can see them.
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

// Returns which of the first `count` inputs some node or output reads.
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

at::Tensor strided_alias(const OutputPlan& output, const at::Tensor& origin) {
  const at::AutoGradMode mode(!output.under_no_grad && c10::GradMode::is_enabled());
  // Another tensor of the storage may have a history that does not belong to this output.
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

CompiledFunction::CompiledFunction(std::shared_ptr<const GraphSource> source, std::shared_ptr<const ValuePath> path)
    : source_(std::move(source)),
      captured_(source_->captured()),
      path_(std::move(path)),
      may_be_interpreted_(detail::may_be_interpreted(source_->captured().options())) {
  if (!plan().epilogue_inputs.empty()) epilogue_ = std::make_unique<Program>(source_->epilogue());
  const bool differentiable = captured_.is_differentiable();
  const Compiler& custom = differentiable ? options().forward_compiler : options().inference_compiler;
  const Graph forward = custom ? forward_graph() : forward_to_compile();
  forward_executable_ = choose_compiler(options(), custom, differentiable ? "forward" : "inference")(forward);
  log(Log::kGraphs, [&] { return forward.code(); });
}

// The forward without what the questions hand on. A compiler of the user's gets it whole.
Graph CompiledFunction::forward_to_compile() {
  if (path_ == nullptr) return forward_graph();
  ReusingGraph reusing = reuse_results(forward_graph(), source_->handed_on());
  taken_ = std::move(reusing.taken);
  return std::move(reusing.graph);
}

CompiledFunction::~CompiledFunction() = default;

std::vector<std::pair<std::string, std::shared_ptr<const Executable>>> CompiledFunction::executables() const {
  std::vector<std::pair<std::string, std::shared_ptr<const Executable>>> made{{"forward", forward_executable_}};
  const std::lock_guard<std::mutex> lock(variants_mutex_);
  for (const KeyedVariant& known : variants_) made.emplace_back("backward", known.variant->executable);
  return made;
}

bool CompiledFunction::starts_at(size_t index, size_t stage) const {
  if (captured_.is_own_result(index, stage)) return true;
  const auto& leads_to = plan().leads_to[stage];
  // Graphs for several sizes renumber values that are not in a slot.
  return leads_to[leads_to.size() - plan().crossings.size() + index] && (captured_.is_of_slot(index) || !is_dynamic());
}

Graph CompiledFunction::graph_for(const std::vector<bool>& defined, const SimplifyOptions& simplify) const {
  // A captured backward calls this in the middle of a trace; nothing that is computed here is part of that trace.
  const detail::PauseTraceGuard real;
  return source_->backward(defined, simplify);
}

void CompiledFunction::compile_variant(BackwardVariant& variant) const {
  variant.executable = choose_compiler(options(), options().backward_compiler, "backward")(variant.graph);
  variant.reads_residual = read_inputs(variant.graph, captured_.num_residuals());
  variant.wanted_strides = strides_to_keep(variant.graph, captured_.layout().num_tangents);
  log(Log::kBackward, "{}: backward compiled, {} nodes", options().name, variant.graph.nodes().size());
  log(Log::kGraphs, [&] { return variant.graph.code(); });
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
  captured_.check_traceable(defined);
  const GlobalState state = GlobalState::current();
  const std::lock_guard<std::mutex> lock(variants_mutex_);
  if (auto found = find_variant(defined, {}, state)) return found;
  log(Log::kBackward, "{}: making a backward for tangents {}", options().name, fmt::join(defined, ","));
  auto made = std::make_shared<BackwardVariant>();
  made->defined = defined;
  made->graph = graph_for(defined, captured_.simplify());
  compile_variant(*made);
  variants_.push_back({defined, {}, state, made});
  return made;
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
  compile_variant(*found);
  variants_.push_back({defined, gradients, state, found});
  return found;
}

std::shared_ptr<const Program> CompiledFunction::inlined(const BackwardVariant& variant) const {
  const std::lock_guard<std::mutex> lock(variants_mutex_);
  if (!variant.inlined) {
    variant.inlined = std::make_shared<const Program>(graph_for(variant.defined, {.fold_constants = false}));
  }
  return variant.inlined;
}

std::shared_ptr<SecondOrder> CompiledFunction::second_order(const BackwardVariant& variant, size_t stage,
                                                            c10::IntArrayRef sizes) const {
  // It draws the forward's numbers again, by the state that eager's generator had.
  DIPTYCH_CHECK(
      !captured_.draws_random() || !draws_on_device(options().draws, options().name),
      "[{}] got draws 'device', and its backward is differentiated again, which draws the call's numbers once "
      "more on the host; use draws 'host'",
      options().name);
  std::shared_ptr<const GraphSource> source = source_->at(sizes);
  if (source == nullptr) source = source_;
  const std::lock_guard<std::mutex> lock(variants_mutex_);
  constexpr size_t kMost = 64;  // sizes
  if (variant.second_orders.size() > kMost) variant.second_orders.clear();
  auto& known = variant.second_orders[source];
  if (!known) known = make_second_order(source, variant.defined, stage);
  return known;
}

std::shared_ptr<SecondOrder> CompiledFunction::make_second_order(const std::shared_ptr<const GraphSource>& source,
                                                                 const std::vector<bool>& defined, size_t stage) const {
  SecondOrder::Starts kinds;
  if (!source->is_dynamic()) {
    if (auto gradients = source->captured().gradients(defined)) {
      const auto& starts = captured_.gradient_primals();
      kinds.are_given.assign(starts.size(), true);
      return std::make_shared<SecondOrder>(std::make_unique<Derivatives>(source, *std::move(gradients), starts), kinds);
    }
  }
  DIPTYCH_CHECK(
      !captured_.plan().hides_history,
      "[{}] the function changes a tensor in place where autograd does not see it (under no_grad, through "
      "detach() or by .data), so its backward can't be differentiated again {}; use an out-of-place operator there",
      options().name,
      source->is_dynamic()
          ? "at other sizes than the last that it met"
          : "where a result, or an argument that it writes to, is computed from another, or arguments share memory");
  Joint again = source->joint(defined);
  const auto needed = needed_for_gradients(again);
  std::vector<Value> starts;
  if (const auto sizes = source->add_sizes(again.graph, SlotKind::kArgument)) starts.push_back(*sizes);
  kinds.has_sizes = !starts.empty();
  const auto add = [&](Value value, bool is_possible) {
    kinds.are_given.push_back(is_possible && needed[value.id]);
    if (kinds.are_given.back()) starts.push_back(value);
  };
  for (const size_t primal : captured_.gradient_primals()) add(again.graph.inputs()[primal], true);
  const size_t num_primals = starts.size();
  for (const size_t crossing : captured_.gradient_crossings()) {
    add(captured_.value_in(again.graph, crossing), starts_at(crossing, stage));
  }
  return std::make_shared<SecondOrder>(again, defined, starts, num_primals, std::move(kinds), options());
}

// Note [A call]: (1) note the history that results will be linked to, as it is before the call changes any of it;
// (2) run the forward graph below autograd; (3) keep what a derivative of the gradients starts from, before mutations;
// (4) give the results their autograd nodes, and apply mutations; (5) hand each node what it saves; (6) make the
// outputs that are views or aliases; (7) accumulate the gradients of a backward() of the function's own.
std::vector<at::Tensor> CompiledFunction::call(c10::ArrayRef<const at::Tensor*> arguments,
                                               std::vector<at::Tensor> handed_on) const {
  const std::vector<at::Tensor> primals = captured_.primals_of(arguments);
  ResultLinks links(*this, primals);
  std::vector<at::Tensor> generator_states = generator_states_before();
  std::vector<at::Tensor> slots = run_forward(primals, std::move(handed_on));
  std::vector<at::Tensor> residuals = take_residuals(slots);
  std::vector<at::Tensor> gradient_primals = gradient_primals_of(primals);
  links.link(slots, residuals);
  links.save(slots, std::move(residuals), std::move(gradient_primals), std::move(generator_states));
  std::vector<at::Tensor> outputs = make_outputs(primals, slots, std::move(links.made()));
  slots.clear();
  accumulate_gradients(primals, outputs);
  return outputs;
}

// Takes the gradients off the end of the outputs: see Note [A backward inside].
void CompiledFunction::accumulate_gradients(const std::vector<at::Tensor>& primals,
                                            std::vector<at::Tensor>& outputs) const {
  const auto& accumulated = plan().accumulated;
  const size_t first = outputs.size() - accumulated.size();
  for (size_t i = 0; i < accumulated.size(); ++i) accumulate(primals[accumulated[i]], std::move(outputs[first + i]));
  outputs.resize(first);
}

std::vector<at::Tensor> CompiledFunction::generator_states_before() const {
  if (!captured_.is_differentiable() || !captured_.draws_random()) return {};
  return save_generator_states(forward_graph());
}

std::vector<at::Tensor> CompiledFunction::run_forward(const std::vector<at::Tensor>& primals,
                                                      std::vector<at::Tensor> handed_on) const {
  if (takes_results() && handed_on.empty()) {
    std::vector<const at::Tensor*> given;
    for (const at::Tensor& primal : primals) given.push_back(&primal);
    handed_on = path_->handed_on(given);
  }
  const RunBelowAutograd guard;
  const detail::ProfiledRange range([this] { return "diptych::forward " + options().name; });
  std::vector<at::Tensor> inputs = primals;
  // A call that changes a primal's shape must not reshape the residuals: the backward expects the original shape.
  for (const size_t primal : captured_.reshaped()) inputs[primal] = primals[primal].tensor_data();
  for (const size_t index : taken_) inputs.push_back(std::move(handed_on.at(index)));
  handed_on.clear();
  return forward_executable_->run(std::move(inputs));
}

// Cuts the residuals off the forward's outputs.
std::vector<at::Tensor> CompiledFunction::take_residuals(std::vector<at::Tensor>& slots) const {
  const auto first = slots.begin() + static_cast<int64_t>(captured_.layout().num_forward_outputs());
  std::vector<at::Tensor> residuals(std::make_move_iterator(first), std::make_move_iterator(slots.end()));
  slots.erase(first, slots.end());
  return residuals;
}

// A later derivative starts from the primal as it was, with the history that it had. One that is given twice is written
// to by one of its places.
std::vector<at::Tensor> CompiledFunction::gradient_primals_of(const std::vector<at::Tensor>& primals) const {
  const auto& mutations = plan().mutations;
  std::vector<at::Tensor> kept;
  for (const size_t index : captured_.gradient_primals()) {
    const at::Tensor& primal = primals[index];
    const bool is_written = std::any_of(mutations.begin(), mutations.end(), [&](const auto& mutation) {
      return mutation.primal == index || primals[mutation.primal].is_same(primal);
    });
    kept.push_back(is_written ? primal.clone() : primal);
  }
  return kept;
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

}  // namespace diptych::detail
