#include "diptych/autodiff/joint_capture.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include "diptych/autodiff/backward_walk.h"
#include "diptych/autodiff/gradient_checks.h"
#include "diptych/autodiff/inner_backward.h"
#include "diptych/autodiff/memory_errors.h"
#include "diptych/autodiff/output_analysis.h"
#include "diptych/autodiff/stages.h"
#include "diptych/base/check.h"
#include "diptych/passes/mark_regions.h"
#include "diptych/trace/custom_function.h"
#include "diptych/trace/generator_watch.h"
#include "diptych/trace/location.h"
#include "diptych/trace/memory_overlap.h"
#include "diptych/trace/node_hooks.h"
#include "diptych/trace/own_history.h"
#include "diptych/trace/placeholder.h"
#include "diptych/trace/recorder.h"
#include "diptych/trace/shared_storage.h"
#include "diptych/trace/sparse_gradients.h"
#include "diptych/trace/traced_writes.h"
#include "diptych/trace/transforms.h"

namespace diptych::detail {
namespace {

namespace ag = torch::autograd;

void add_found(ag::variable_list& gradients, const std::vector<size_t>& places, ag::variable_list&& found) {
  for (size_t i = 0; i < places.size(); ++i) {
    at::Tensor& sum = gradients[places[i]];
    if (found[i].defined()) sum = sum.defined() ? add_gradients(sum, found[i]) : std::move(found[i]);
  }
}

// A Function that is differentiable once leads to a node that throws.
bool has_rule(ag::Node& node) {
  return detail::is_custom_function(node) || detail::has_hooks(node) ||
         dynamic_cast<const ag::Error*>(&node) != nullptr;
}

ag::edge_list edges_of(const ag::variable_list& tensors) {
  ag::edge_list edges;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.requires_grad()) edges.push_back(ag::impl::gradient_edge(tensor));
  }
  return edges;
}

// The graph of the gradients is differentiated as it is, so no rule of a Function may be on the way, and no hook that
// would also see the gradient of the second order.
void check_differentiable_again(const ag::variable_list& gradients, Recorder& recorder) {
  const ag::edge_list edges = edges_of(gradients);
  DIPTYCH_CHECK(!detail::reaches(edges, detail::is_custom_function),
                "[second order] the gradient depends on the result of a torch.autograd.Function, and a graph does not "
                "differentiate that Function's backward; write the rule with custom_vjp, call backward without "
                "create_graph, or keep that Function outside the compiled function");
  DIPTYCH_CHECK(!detail::reaches(edges, detail::has_hooks),
                "[second order] the gradient depends on a tensor that the function registers a hook on, and the hook "
                "would have to run for the second derivative as well; register the hook outside the compiled function, "
                "write the rule with custom_vjp, or call backward without create_graph");
  const Value lost = recorder.provenance().lost_history();
  DIPTYCH_CHECK(!lost,
                "[second order] the gradient reads a result of {} whose history is not in the graph, because a hook on "
                "saved tensors made it; call backward without create_graph",
                detail::with_scope(recorder.graph().producer(lost)->op.name(),
                                   recorder.graph().producer(lost)->provenance.scope));
}

FlatResult call_watched(const FlatFunction& function, const std::vector<at::Tensor>& stand_ins,
                        detail::Recorder& recorder) {
  const detail::GeneratorWatch watch;
  try {
    FlatResult result = function(stand_ins);
    detail::GeneratorWatch::check(recorder.graph());
    return result;
  } catch (const c10::Error& error) {
    refuse_memory(error);
    throw;
  }
}

// Which primals to trace as views of one base, and the free variables known from the trace that found this out.
struct Merging {
  std::vector<std::vector<size_t>> groups;
  std::vector<at::Tensor> free_variables;
  bool joins_aliases = false;
  bool is_needed() const { return joins_aliases || !groups.empty(); }
};

// Whether nobody outside holds a tensor. Its Python object may be kept by the tensor itself and does not count.
bool is_unheld_outside(const at::Tensor& primal) {
  const size_t count = primal.use_count();
  return count == 1 || (count == 2 && primal.unsafeGetTensorImpl()->pyobj_slot()->has_unique_reference());
}

// One that was made while the function ran, of memory that others hold. Views that operators take are recorded.
bool is_unseen_alias(const Primal& primal) {
  const at::Tensor& real = primal.real;
  return primal.slot.kind == SlotKind::kFreeVariable && !primal.base_of && !detail::is_stand_in(real) &&
         real.has_storage() && !real.is_view() && real.storage().use_count() > 1 && is_unheld_outside(real);
}

}  // namespace

struct JointCapture::State {
  explicit State(const CaptureOptions& options) : recorder(options.name) {
    if (options.takes_wrapped) recorder.take_wrapped_tensors();
  }

  detail::Recorder recorder;
  size_t num_arguments = 0;
  detail::OutputAnalysis analysis;
  detail::Stages stages;
  std::vector<at::Tensor> tangents;
  AskedQuestions asked;
  std::unordered_set<const ag::Node*> saving;  ///< nodes of the trace that read values of the forward
  std::map<uint64_t, std::shared_ptr<const detail::HostReads>> host_reads;
  std::optional<std::vector<RegionMarks>> marks;  ///< of the first joint graph with gradients, if it has regions

  void trace(const FlatFunction& function, const std::vector<at::Tensor>& arguments,
             const std::vector<std::string>& paths, const CaptureOptions& options, const Merging& merging);
  /// Runs trace(), and throws TransformMet if it met a transform: anything else that was thrown may be a consequence.
  void trace_plain(const FlatFunction& function, const std::vector<at::Tensor>& arguments,
                   const std::vector<std::string>& paths, const CaptureOptions& options, const Merging& merging);
  Merging find_merging() const;
  void check_made_inside() const;
  void add_tangents();
  void supersede_backward();
  /// Places that gradients are wanted at.
  struct Wanted {
    ag::edge_list edges;
    std::vector<size_t> places;  ///< per edge
    std::unordered_set<const ag::Node*> outside;
    void add(size_t place, const ag::Edge& edge) {
      edges.push_back(edge);
      places.push_back(place);
    }
  };
  Wanted want_primals(size_t count) const;
  ag::variable_list run_backward(const std::vector<bool>& defined, bool create_graph);
  TracedValues traced(std::vector<at::Tensor> from, std::vector<at::Tensor> to, size_t num_primals);
  void run_stage(size_t stage, const std::vector<bool>& defined, bool create_graph, ag::variable_list& gradients);
  std::vector<Value> values_outside();
  void check_nothing_changed(const std::vector<Value>& before);
  enum class Fate : uint8_t { kStays, kLeaves };
  Joint assemble(const std::vector<at::Tensor>& gradients, Fate graph_fate);
  void mark_regions(Joint& joint);
};

void JointCapture::State::add_tangents() {
  for (const size_t slot : analysis.plan.differentiable) {
    const at::Tensor& output = analysis.slots[slot].tensor;
    tangents.push_back(recorder.add_input(output, {SlotKind::kTangent, analysis.slots[slot].path}));
  }
  for (size_t i = 0; i < analysis.plan.hidden.size(); ++i) {
    const at::Tensor example = make_placeholder(analysis.plan.hidden[i]);
    tangents.push_back(recorder.add_input(example, {SlotKind::kTangent, fmt::format("hidden.{}", i)}));
  }
}

JointCapture::State::Wanted JointCapture::State::want_primals(size_t count) const {
  Wanted wanted;
  for (size_t i = 0; i < count; ++i) {
    const Primal& primal = recorder.primals()[i];
    if (primal.edge.is_valid()) wanted.add(i, primal.edge);
    const ag::Edge real = detail::edge_outside(primal);
    if (!real.is_valid()) continue;
    wanted.add(i, real);
    wanted.outside.insert(real.function.get());
  }
  return wanted;
}

// Adds what the tangents of one stage contribute to the gradient of each primal and each crossing.
void JointCapture::State::run_stage(size_t stage, const std::vector<bool>& defined, bool create_graph,
                                    ag::variable_list& gradients) {
  ag::edge_list roots;
  ag::variable_list given;
  for (size_t i = 0; i < defined.size(); ++i) {
    if (!defined[i] || analysis.plan.stage_of_tangent[i] != stage) continue;
    roots.push_back(stages.tangents[i]);
    // A gradient of the second order may be asked for with respect to the tangent.
    if (create_graph) tangents[i].set_requires_grad(true);
    given.push_back(tangents[i]);
  }
  Wanted wanted = want_primals(recorder.primals().size());
  for (size_t i = 0; i < stages.crossings.size(); ++i) {
    if (analysis.plan.crossings[i].stage > stage) wanted.add(recorder.primals().size() + i, stages.crossings[i]);
  }
  if (roots.empty() || wanted.edges.empty()) return;
  auto found = detail::walk_backward(recorder, roots, std::move(given), create_graph, wanted.edges,
                                     {stages, stage, saving, host_reads, wanted.outside});
  add_found(gradients, wanted.places, std::move(found));
}

// Returns the present values of the tensors that exist outside the graph: the results and the primals.
std::vector<Value> JointCapture::State::values_outside() {
  std::vector<Value> values;
  for (const auto& slot : analysis.slots) values.push_back(recorder.value_of(slot.tensor));
  for (const auto& primal : recorder.primals()) values.push_back(recorder.value_of(primal.stand_in));
  return values;
}

// Refuses a backward that changes such tensors in place. The forward graph has run long before its backward, and nobody
// would make that change to a caller's tensor.
void JointCapture::State::check_nothing_changed(const std::vector<Value>& before) {
  const auto after = values_outside();
  const size_t num_slots = analysis.slots.size();
  for (size_t i = 0; i < after.size(); ++i) {
    const bool is_slot = i < num_slots;
    const Value was = i < before.size() ? before[i] : recorder.primals()[i - num_slots].value;
    DIPTYCH_CHECK(was == after[i],
                  "[capture] the backward of the function changes '{}' in place (in a Function's backward or in a "
                  "hook), and the backward graph can't change a tensor from outside; make the change in the forward, "
                  "or call the function uncompiled and capture its backward with BackwardCapture",
                  is_slot ? analysis.slots[i].path : recorder.primals()[i - num_slots].slot.path);
  }
}

// Marks the nodes of earlier backwards of this trace: what these checked or drew is not part of the next one.
void JointCapture::State::supersede_backward() {
  Graph& graph = recorder.graph();
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    Provenance provenance = graph.nodes()[i].provenance;
    if (provenance.phase != Phase::kBackward || provenance.is_superseded) continue;
    provenance.is_superseded = true;
    graph.set_provenance(i, provenance);
  }
}

ag::variable_list JointCapture::State::run_backward(const std::vector<bool>& defined, bool create_graph) {
  ag::variable_list gradients(recorder.primals().size() + stages.crossings.size());
  if (std::find(defined.begin(), defined.end(), true) == defined.end()) return gradients;
  const auto before = values_outside();
  const size_t num_primals = recorder.primals().size();
  supersede_backward();
  recorder.begin_backward(create_graph);
  const detail::GeneratorWatch watch;
  for (size_t stage = 0; stage < analysis.plan.num_stages; ++stage) run_stage(stage, defined, create_graph, gradients);
  detail::GeneratorWatch::check_untouched();
  check_nothing_changed(before);
  // Tensors that only the backward reads have become primals, to which nothing flows.
  const size_t num_new = recorder.primals().size() - num_primals;
  gradients.insert(gradients.begin() + static_cast<std::ptrdiff_t>(num_primals), num_new, at::Tensor());
  return gradients;
}

// Backward variants are split by the residuals of the first joint graph, so they take its marks. A joint graph without
// gradients leaves nothing to budget, and its marks are for itself alone.
void JointCapture::State::mark_regions(Joint& joint) {
  if (marks) return detail::set_region_marks(joint.graph, *marks);
  auto found = detail::find_region_marks(joint, recorder.provenance().regions());
  detail::set_region_marks(joint.graph, found);
  const auto& outputs = joint.graph.outputs();
  const auto first = outputs.begin() + static_cast<std::ptrdiff_t>(joint.layout.num_forward_outputs());
  if (std::any_of(first, outputs.end(), [](Value gradient) { return static_cast<bool>(gradient); })) {
    marks = std::move(found);
  }
}

Joint JointCapture::State::assemble(const std::vector<at::Tensor>& gradients, Fate graph_fate) {
  // A Function's backward may have met a transform.
  if (!recorder.transform_met().empty()) throw detail::TransformMet(recorder.transform_met());
  std::vector<Value> outputs;
  std::vector<Slot> slots;
  for (const auto& slot : analysis.slots) {
    outputs.push_back(slot.tensor.defined() ? slot.value : Value{});
    slots.push_back({slot.kind, slot.path});
  }
  const size_t num_primals = recorder.primals().size();
  for (size_t i = 0; i < num_primals + stages.crossings.size(); ++i) {
    const at::Tensor gradient = i < gradients.size() ? gradients[i] : at::Tensor();
    outputs.push_back(recorder.value_of(recorder.stand_in(gradient)));
    slots.push_back({SlotKind::kGradient,
                     i < num_primals ? recorder.primals()[i].slot.path : fmt::format("crossing.{}", i - num_primals)});
  }
  // Inputs are ordered: arguments, free variables, tangents, whenever each was met.
  Graph graph = graph_fate == Fate::kLeaves ? std::move(recorder.graph()) : recorder.graph();
  std::vector<size_t> order;
  for (const auto kind : {SlotKind::kArgument, SlotKind::kFreeVariable, SlotKind::kTangent}) {
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      if (graph.input_slots()[i].kind == kind) order.push_back(i);
    }
  }
  graph.order_inputs(order);
  graph.set_outputs(std::move(outputs), std::move(slots));
  JointLayout layout{num_arguments,
                     recorder.primals().size() - num_arguments,
                     tangents.size(),
                     analysis.plan.outputs.size(),
                     analysis.slots.size() - analysis.plan.outputs.size(),
                     stages.crossings.size()};
  Joint joint{std::move(graph), layout};
  if (recorder.provenance().regions().regions.empty()) return joint;
  mark_regions(joint);
  return joint;
}

void JointCapture::State::trace(const FlatFunction& function, const std::vector<at::Tensor>& arguments,
                                const std::vector<std::string>& paths, const CaptureOptions& options,
                                const Merging& merging) {
  const detail::TraceGuard guard(recorder);
  num_arguments = arguments.size();
  for (size_t i = 0; i < arguments.size(); ++i) {
    DIPTYCH_CHECK(arguments[i].defined(),
                  "[capture] argument '{}' is an undefined tensor; pass a defined one, or an absent optional",
                  paths[i]);
    recorder.add_primal(arguments[i], {SlotKind::kArgument, paths[i]});
  }
  for (const at::Tensor& tensor : merging.free_variables) recorder.stand_in(tensor);
  if (merging.joins_aliases) recorder.primal_table().join_aliases();
  for (const auto& members : merging.groups)
    detail::merge_primals(recorder, members, /*with_families=*/!options.exact_outputs);
  std::vector<at::Tensor> stand_ins;
  for (size_t i = 0; i < arguments.size(); ++i) stand_ins.push_back(recorder.primals()[i].stand_in);
  if (options.answers_questions) recorder.asked_values().set_source(PrefixValues(recorder));
  if (options.answers != nullptr) recorder.asked_values().assume(*options.answers);
  FlatResult result;
  try {
    result = call_watched(function, stand_ins, recorder);
  } catch (...) {
    if (detail::has_accumulated(recorder)) ++detail::traced_writes;
    throw;
  }
  std::vector<size_t> accumulated;
  if (options.accumulates) accumulated = detail::take_accumulated(recorder, result);
  for (size_t i = 0; i < result.tensors.size(); ++i) {
    DIPTYCH_CHECK(result.tensors[i].defined(), "[capture] output '{}' is an undefined tensor; return a defined one",
                  result.paths[i]);
    // A real tensor that is returned as it is becomes a free variable. A view of x.data would be one of x.
    result.tensors[i] = recorder.stand_in(result.tensors[i]);
    if (result.tensors[i].is_view()) result.tensors[i] = detail::with_own_history(recorder, result.tensors[i]);
  }
  detail::check_own_leaves(recorder, result, options.accumulates);
  analysis = detail::analyze_outputs(recorder, result, options.exact_outputs);
  asked = find_questions(recorder);
  recorder.asked_values() = {};  // the answers hold memory of the call
  // Nobody asks any more; that the function might tells sparse_gradients.cpp that its gradients go to autograd.
  const bool may_ask = options.answers_questions || options.answers != nullptr;
  const bool hands_gradients_on = may_ask && !options.exact_outputs;  // a body does not
  if (hands_gradients_on) recorder.asked_values().set_source([](Value) { return at::Tensor(); });
  check_made_inside();
  DIPTYCH_CHECK(
      !result.tensors.empty() || !analysis.plan.mutations.empty() || (hands_gradients_on && !asked.questions.empty()),
      "[capture] the function returned no tensor and changed none; return at least one");
  analysis.plan.accumulated = std::move(accumulated);
  if (!options.accumulates) detail::check_nothing_accumulated(recorder);
  detail::check_gradients_pass(recorder, result.tensors, analysis, num_arguments, options);
  stages = detail::find_stages(recorder, result.tensors, analysis, options.stages);
  add_tangents();
  for (size_t i = 0; i < recorder.primals().size(); ++i) {
    const auto& primal = recorder.primals()[i];
    if (primal.part_of) analysis.plan.parts.push_back(i);
    if (recorder.views().counts_offset_of(i)) analysis.plan.counted_offsets.push_back(i);
    if (primal.base_of) analysis.plan.derived.push_back({i - num_arguments, *primal.base_of});
  }
  const auto& captured = recorder.primal_table().captured_arguments();
  analysis.plan.captured_arguments.assign(captured.begin(), captured.end());
  analysis.plan.hides_history = recorder.views().hides_history();
  analysis.plan.rewrites_history = recorder.views().rewrites_history();
  analysis.plan.writes = recorder.views().writes();
  analysis.plan.has_custom_function = detail::reaches(stages.tangents, detail::is_custom_function);
  analysis.plan.has_hook = detail::reaches(stages.tangents, detail::has_hooks);
}

void JointCapture::State::trace_plain(const FlatFunction& function, const std::vector<at::Tensor>& arguments,
                                      const std::vector<std::string>& paths, const CaptureOptions& options,
                                      const Merging& merging) {
  try {
    trace(function, arguments, paths, options, merging);
  } catch (...) {
    if (recorder.transform_met().empty()) throw;
  }
  if (!recorder.transform_met().empty()) throw detail::TransformMet(recorder.transform_met());
}

// Finds the primals that share memory of which some part was mutated; they must be traced as views of one base. So must
// a mutated primal that has gaps, or it would lose them, and one with a storage offset that the offset of a view
// includes, since the primal's new value lies at the beginning of a storage.
Merging JointCapture::State::find_merging() const {
  const auto& primals = recorder.primals();
  Merging merging;
  std::vector<std::optional<size_t>> places;  // in the next trace, which makes unseen aliases again
  for (size_t i = 0; i < primals.size(); ++i) {
    const bool is_known = !is_unseen_alias(primals[i]);
    merging.joins_aliases = merging.joins_aliases || !is_known;
    places.push_back(is_known ? std::optional(num_arguments + merging.free_variables.size()) : std::nullopt);
    if (i < num_arguments) places.back() = i;
    if (i >= num_arguments && is_known) merging.free_variables.push_back(primals[i].outside());
  }
  std::vector<at::Tensor> memory;
  for (size_t i = 0; i < primals.size(); ++i) {
    memory.push_back(primals[i].same_as || detail::is_stand_in(primals[i].real) ? at::Tensor() : primals[i].real);
  }
  const auto groups = detail::memory_groups(memory);
  std::vector<bool> is_mutated(primals.size());
  for (const auto& mutation : analysis.plan.mutations) {
    if (mutation.data) is_mutated[groups[mutation.primal]] = true;
  }
  std::vector<std::vector<size_t>> members(primals.size());
  for (size_t i = 0; i < primals.size(); ++i) {
    if (memory[i].defined() && is_mutated[groups[i]] && places[i]) members[groups[i]].push_back(i);
  }
  for (auto& group : members) {
    if (group.empty()) continue;
    const at::Tensor& first = memory[group[0]];
    const bool counts_offset = recorder.views().counts_offset_of(group[0]) && first.storage_offset() != 0;
    if (group.size() == 1 && !counts_offset && first.is_non_overlapping_and_dense()) continue;
    for (size_t& member : group) member = *places[member];
    merging.groups.push_back(std::move(group));
  }
  return merging;
}

// Refuses tensors that the function makes unseen. A tensor was made while the function ran if nobody holds it any more,
// nor its storage; eager would make a new one in each call. For a tensor that is only read this makes no difference.
void JointCapture::State::check_made_inside() const {
  const auto& primals = recorder.primals();
  std::vector<bool> leaves(primals.size());
  for (const auto& mutation : analysis.plan.mutations) leaves[mutation.primal] = true;
  for (const auto& input : analysis.plan.epilogue_inputs) {
    if (input.is_primal) leaves[input.index] = true;
  }
  using Kind = OutputPlan::Kind;
  for (const auto& output : analysis.plan.outputs) {
    const bool is_of_primal =
        output.kind == Kind::kPrimal || output.kind == Kind::kPrimalData || output.kind == Kind::kOfPrimal;
    if (is_of_primal) leaves[output.index] = true;
  }
  for (size_t i = num_arguments; i < primals.size(); ++i) {
    const at::Tensor& real = primals[i].real;
    if (primals[i].base_of || detail::is_stand_in(real) || !real.has_storage()) continue;
    DIPTYCH_CHECK(
        !recorder.primal_table().joins_aliases() || !is_unseen_alias(primals[i]),
        "[capture] the function makes a tensor ({}: {}) that shares the memory of another one without calling an "
        "operator, as w.data does with a tensor that the function captures; use w.detach(), or pass it as an argument",
        primals[i].slot.path, type_string(TensorMeta::of(real)));
    const bool is_made_inside = is_unheld_outside(real) && real.storage().use_count() == 1;
    // Memory that nobody frees may be the function's own, and gone.
    const bool is_unowned =
        detail::is_lent(*real.storage().unsafeGetStorageImpl()) && real.storage().data_ptr().get_context() == nullptr;
    DIPTYCH_CHECK(
        !is_made_inside || !(leaves[i] || is_unowned),
        "[capture] the function makes a tensor ({}) from foreign memory, as from_numpy, frombuffer, from_dlpack and "
        "from_blob do, and {}; copy it (torch.tensor(), clone()) or make it outside the function",
        primals[i].slot.path, leaves[i] ? "returns it or changes it in place" : "nothing keeps that memory alive");
  }
}

JointCapture::JointCapture(const FlatFunction& function, const std::vector<at::Tensor>& arguments,
                           const std::vector<std::string>& paths, const CaptureOptions& options)
    : state_(std::make_unique<State>(options)) {
  state_->trace_plain(function, arguments, paths, options, {});
  const Merging merging = state_->find_merging();
  if (!merging.is_needed()) return;
  state_ = std::make_unique<State>(options);
  state_->trace_plain(function, arguments, paths, options, merging);
}

JointCapture::~JointCapture() = default;

const AskedQuestions& JointCapture::asked() const { return state_->asked; }

Joint JointCapture::joint(const std::vector<bool>& defined, bool create_graph) {
  const detail::TraceGuard guard(state_->recorder);
  const auto gradients = state_->run_backward(defined, create_graph);
  if (create_graph) check_differentiable_again(gradients, state_->recorder);
  return state_->assemble(gradients, State::Fate::kStays);
}

TracedValues JointCapture::State::traced(std::vector<at::Tensor> from, std::vector<at::Tensor> to, size_t num_primals) {
  TracedValues values{recorder.graph(), std::move(from), std::move(to), {}, {}, num_primals};
  // A primal that was changed in place stands for its new elements.
  for (size_t i = 0; i < values.from.size(); ++i) {
    values.inputs.push_back(i < num_primals ? recorder.primals()[i].value : recorder.value_of(values.from[i]));
  }
  for (const at::Tensor& tensor : values.to) values.outputs.push_back(recorder.value_of(tensor));
  values.graph = recorder.graph();  // with what pending writes have added
  return values;
}

std::optional<TracedValues> JointCapture::gradients(const std::vector<bool>& defined) {
  State& state = *state_;
  const auto& plan = state.analysis.plan;
  const bool is_one_walk =
      plan.num_stages <= 1 && state.stages.crossings.empty() && !state.recorder.views().merges_primals();
  if (plan.hides_history && !is_one_walk) return std::nullopt;
  if (!plan.hides_history && !detail::reaches(state.stages.tangents, has_rule)) return std::nullopt;
  const detail::TraceGuard guard(state.recorder);
  auto gradients = state.run_backward(defined, /*create_graph=*/true);
  if (!is_one_walk) {  // the graph is differentiated, where no rule is on the way
    if (!detail::reaches(edges_of(gradients), has_rule)) return std::nullopt;
    check_differentiable_again(gradients, state.recorder);
  }
  std::vector<at::Tensor> from;
  for (const Primal& primal : state.recorder.primals()) from.push_back(primal.stand_in);
  for (size_t i = 0; i < defined.size(); ++i) {
    if (defined[i]) from.push_back(state.tangents[i]);
  }
  return state.traced(std::move(from), std::move(gradients), state.recorder.primals().size());
}

// Note [Derivatives of traced gradients]: the trace of a backward has a history of its own, in which autograd finds
// Functions and hooks as it would find them in eager. So the next derivative is traced as the first one was: by a walk
// from the gradients. The tangents are zeros in the trace; whoever takes a graph out of it takes them as inputs.
TracedValues JointCapture::derivatives(const TracedValues& values, const std::vector<bool>& defined) {
  State& state = *state_;
  const detail::TraceGuard guard(state.recorder);
  const auto before = state.values_outside();
  state.recorder.begin_backward(/*create_graph=*/true);
  std::vector<at::Tensor> from = values.from, to(values.from.size());
  ag::edge_list roots;
  ag::variable_list given;
  for (size_t i = 0; i < defined.size(); ++i) {
    if (!defined[i]) continue;
    roots.push_back(ag::impl::gradient_edge(values.to[i]));
    given.push_back(at::zeros(values.to[i].sizes(), values.to[i].options()).set_requires_grad(true));
    from.push_back(given.back());
  }
  State::Wanted wanted = state.want_primals(values.num_primals);
  for (size_t i = values.num_primals; i < values.from.size(); ++i) {
    wanted.add(i, ag::impl::gradient_edge(values.from[i]));
  }
  std::unordered_set<const ag::Node*> saving;  // eager's second backward is not asked for what it keeps
  auto found = detail::walk_backward(state.recorder, roots, std::move(given), /*create_graph=*/true, wanted.edges,
                                     {state.stages, 0, saving, state.host_reads, wanted.outside});
  add_found(to, wanted.places, std::move(found));
  state.check_nothing_changed(before);
  return state.traced(std::move(from), std::move(to), values.num_primals);
}

Joint JointCapture::joint() { return joint(std::vector<bool>(state_->tangents.size(), true)); }

Joint JointCapture::take_joint() {
  const detail::TraceGuard guard(state_->recorder);
  const std::vector<bool> all(state_->tangents.size(), true);
  return state_->assemble(state_->run_backward(all, /*create_graph=*/false), State::Fate::kLeaves);
}

std::vector<SavingNode> JointCapture::saving_nodes() const {
  const auto& state = *state_;
  return detail::find_saving_nodes(state.recorder, state.stages, state.analysis.plan, state.saving);
}

std::vector<std::shared_ptr<const HostReads>> JointCapture::host_reads() const {
  std::vector<std::shared_ptr<const detail::HostReads>> reads;
  for (const auto& [place, one] : state_->host_reads) reads.push_back(one);
  return reads;
}

void JointCapture::release_arguments() { state_->recorder.primal_table().release_arguments(); }

const ForwardPlan& JointCapture::plan() const { return state_->analysis.plan; }

std::vector<at::Tensor> JointCapture::free_variables() const {
  std::vector<at::Tensor> real;
  const auto& primals = state_->recorder.primals();
  for (size_t i = state_->num_arguments; i < primals.size(); ++i) real.push_back(primals[i].outside());
  return real;
}

}  // namespace diptych::detail
