#include "diptych/autodiff/joint_capture.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <map>
#include <set>

#include "diptych/autodiff/backward_walk.h"
#include "diptych/autodiff/custom_function.h"
#include "diptych/autodiff/gradient_checks.h"
#include "diptych/autodiff/output_analysis.h"
#include "diptych/base/error.h"
#include "diptych/passes/mark_regions.h"
#include "diptych/trace/generator_watch.h"
#include "diptych/trace/recorder.h"

namespace diptych {
namespace {

namespace ag = torch::autograd;

// The graph of the gradients is differentiated as it stands, so no rule of a Function's may be on the way.
void check_differentiable_again(const ag::variable_list& gradients, detail::Recorder& recorder) {
  ag::edge_list edges;
  for (const at::Tensor& gradient : gradients) {
    if (gradient.defined() && gradient.requires_grad()) edges.push_back(ag::impl::gradient_edge(gradient));
  }
  DIPTYCH_CHECK(!detail::reaches(edges, detail::is_custom_function),
                "[second order] the gradient depends on what a torch.autograd.Function computes, whose own backward is "
                "not differentiated again; write the rule with custom_vjp, call backward without create_graph, or keep "
                "that Function outside the compiled function");
  const Value lost = recorder.lost_history();
  DIPTYCH_CHECK(!lost,
                "[second order] the gradient reads a result of {} in scope '{}' whose history the graph does not know, "
                "as a hook on saved tensors makes it; call backward without create_graph",
                recorder.graph().producer(lost)->op.name(), recorder.graph().producer(lost)->provenance.scope.str());
}

FlatResult call_watched(const FlatFunction& function, const std::vector<at::Tensor>& stand_ins,
                        detail::Recorder& recorder) {
  const detail::GeneratorWatch watch;
  FlatResult result = function(stand_ins);
  detail::GeneratorWatch::check(recorder.graph());
  return result;
}

// Which primals to trace as views of one base, and the free variables known from the trace that found it out.
struct Merging {
  std::vector<std::vector<size_t>> groups;
  std::vector<at::Tensor> free_variables;
};

}  // namespace

struct JointCapture::State {
  explicit State(const CaptureOptions& options) : recorder(options.name) {}

  detail::Recorder recorder;
  size_t num_arguments = 0;
  detail::OutputAnalysis analysis;
  std::vector<at::Tensor> tangents;
  std::optional<std::vector<RegionMarks>> marks;  ///< of the first joint graph with gradients, if it has regions

  void trace(const FlatFunction& function, const std::vector<at::Tensor>& arguments,
             const std::vector<std::string>& paths, bool exact_outputs, const Merging& merging);
  Merging find_merging() const;
  void add_tangents();
  ag::variable_list run_backward(const std::vector<bool>& defined, bool create_graph);
  enum class Fate : uint8_t { kStays, kLeaves };
  Joint assemble(const std::vector<at::Tensor>& gradients, Fate graph_fate);
  void mark_regions(Joint& joint);
};

void JointCapture::State::add_tangents() {
  for (const size_t slot : analysis.plan.differentiable) {
    const at::Tensor& output = analysis.slots[slot].tensor;
    tangents.push_back(recorder.add_input(output, {SlotKind::kTangent, analysis.slots[slot].path}));
  }
}

ag::variable_list JointCapture::State::run_backward(const std::vector<bool>& defined, bool create_graph) {
  ag::edge_list roots;
  ag::variable_list given;
  for (size_t i = 0; i < defined.size(); ++i) {
    if (!defined[i]) continue;
    roots.push_back(ag::impl::gradient_edge(analysis.slots[analysis.plan.differentiable[i]].tensor));
    // Who asks for the gradient's gradient may ask for that with respect to the tangent.
    if (create_graph) tangents[i].set_requires_grad(true);
    given.push_back(tangents[i]);
  }
  ag::edge_list wanted;
  for (const auto& primal : recorder.primals()) {
    if (primal.edge.is_valid()) wanted.push_back(primal.edge);
  }
  ag::variable_list gradients(recorder.primals().size());
  if (roots.empty() || wanted.empty()) return gradients;
  recorder.begin_backward(create_graph);
  const detail::GeneratorWatch watch;
  const auto found = detail::walk_backward(recorder, roots, std::move(given), create_graph, wanted);
  detail::GeneratorWatch::check_untouched();
  size_t next = 0;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (recorder.primals()[i].edge.is_valid()) gradients[i] = found[next++];
  }
  return gradients;
}

// Backward variants are split by the residuals of the first joint graph, so its marks are theirs. A joint graph without
// gradients leaves nothing to budget, and decides for itself alone.
void JointCapture::State::mark_regions(Joint& joint) {
  if (marks) return detail::set_region_marks(joint.graph, *marks);
  auto found = detail::find_region_marks(joint, recorder.regions());
  detail::set_region_marks(joint.graph, found);
  const auto& outputs = joint.graph.outputs();
  const auto first = outputs.begin() + static_cast<std::ptrdiff_t>(joint.layout.num_forward_outputs());
  if (std::any_of(first, outputs.end(), [](Value gradient) { return static_cast<bool>(gradient); })) {
    marks = std::move(found);
  }
}

Joint JointCapture::State::assemble(const std::vector<at::Tensor>& gradients, Fate graph_fate) {
  std::vector<Value> outputs;
  std::vector<Slot> slots;
  for (const auto& slot : analysis.slots) {
    outputs.push_back(slot.tensor.defined() ? slot.value : Value{});
    slots.push_back({slot.kind, slot.path});
  }
  for (size_t i = 0; i < recorder.primals().size(); ++i) {
    const at::Tensor gradient = i < gradients.size() ? gradients[i] : at::Tensor();
    outputs.push_back(recorder.value_of(recorder.stand_in(gradient)));
    slots.push_back({SlotKind::kGradient, recorder.primals()[i].slot.path});
  }
  // Arguments, free variables, tangents, whenever each was met.
  Graph graph = graph_fate == Fate::kLeaves ? std::move(recorder.graph()) : recorder.graph();
  std::vector<size_t> order;
  for (const auto kind : {SlotKind::kArgument, SlotKind::kFreeVariable, SlotKind::kTangent}) {
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      if (graph.input_slots()[i].kind == kind) order.push_back(i);
    }
  }
  graph.order_inputs(order);
  graph.set_outputs(std::move(outputs), std::move(slots));
  JointLayout layout{num_arguments, recorder.primals().size() - num_arguments, tangents.size(),
                     analysis.plan.outputs.size(), analysis.slots.size() - analysis.plan.outputs.size()};
  Joint joint{std::move(graph), layout};
  if (recorder.regions().regions.empty()) return joint;
  mark_regions(joint);
  return joint;
}

void JointCapture::State::trace(const FlatFunction& function, const std::vector<at::Tensor>& arguments,
                                const std::vector<std::string>& paths, bool exact_outputs, const Merging& merging) {
  const detail::TraceGuard guard(recorder);
  num_arguments = arguments.size();
  for (size_t i = 0; i < arguments.size(); ++i) {
    DIPTYCH_CHECK(arguments[i].defined(),
                  "[capture] argument '{}' is an undefined tensor; pass a defined one, or an absent optional",
                  paths[i]);
    recorder.add_primal(arguments[i], {SlotKind::kArgument, paths[i]});
  }
  for (const at::Tensor& tensor : merging.free_variables) recorder.stand_in(tensor);
  for (const auto& members : merging.groups) recorder.merge(members, /*with_families=*/!exact_outputs);
  std::vector<at::Tensor> stand_ins;
  for (size_t i = 0; i < arguments.size(); ++i) stand_ins.push_back(recorder.primals()[i].stand_in);
  FlatResult result = call_watched(function, stand_ins, recorder);
  for (size_t i = 0; i < result.tensors.size(); ++i) {
    DIPTYCH_CHECK(result.tensors[i].defined(), "[capture] output '{}' is an undefined tensor; return a defined one",
                  result.paths[i]);
    // A real tensor that is returned as it is, is a free variable.
    result.tensors[i] = recorder.stand_in(result.tensors[i]);
  }
  analysis = detail::analyze_outputs(recorder, result, exact_outputs);
  DIPTYCH_CHECK(!result.tensors.empty() || !analysis.plan.mutations.empty(),
                "[capture] the function returned no tensor and changed none; return at least one");
  detail::check_gradients_pass(recorder, result.tensors, analysis);
  add_tangents();
  ag::edge_list roots;
  for (const size_t slot : analysis.plan.differentiable) {
    roots.push_back(ag::impl::gradient_edge(analysis.slots[slot].tensor));
  }
  for (size_t i = 0; i < recorder.primals().size(); ++i) {
    const auto& primal = recorder.primals()[i];
    if (primal.part_of) analysis.plan.parts.push_back(i);
    if (primal.base_of) analysis.plan.derived.push_back({i - num_arguments, *primal.base_of});
  }
  analysis.plan.hides_history = recorder.hides_history();
  analysis.plan.has_custom_function = detail::reaches(roots, detail::is_custom_function);
}

// The primals that share a storage of which some part was mutated; they must be traced as views of one base. So must a
// mutated one that has gaps, or it would lose them.
Merging JointCapture::State::find_merging() const {
  std::set<const c10::StorageImpl*> mutated;
  const auto storage_of = [](const at::Tensor& tensor) { return tensor.storage().unsafeGetStorageImpl(); };
  for (const auto& mutation : analysis.plan.mutations) {
    if (mutation.data) mutated.insert(storage_of(recorder.primals()[mutation.primal].real));
  }
  std::map<const c10::StorageImpl*, size_t> group_of;
  Merging merging;
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 0; i < recorder.primals().size(); ++i) {
    const auto& primal = recorder.primals()[i];
    if (i >= num_arguments) merging.free_variables.push_back(primal.real);
    if (primal.same_as || detail::is_stand_in(primal.real) || mutated.count(storage_of(primal.real)) == 0) continue;
    const auto [found, is_new] = group_of.emplace(storage_of(primal.real), groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].push_back(i);
  }
  for (auto& members : groups) {
    const bool is_dense = recorder.primals()[members[0]].real.is_non_overlapping_and_dense();
    if (members.size() > 1 || !is_dense) merging.groups.push_back(std::move(members));
  }
  return merging;
}

JointCapture::JointCapture(const FlatFunction& function, const std::vector<at::Tensor>& arguments,
                           const std::vector<std::string>& paths, const CaptureOptions& options)
    : state_(std::make_unique<State>(options)) {
  state_->trace(function, arguments, paths, options.exact_outputs, {});
  const Merging merging = state_->find_merging();
  if (merging.groups.empty()) return;
  state_ = std::make_unique<State>(options);
  state_->trace(function, arguments, paths, options.exact_outputs, merging);
}

JointCapture::~JointCapture() = default;

Joint JointCapture::joint(const std::vector<bool>& defined, bool create_graph) {
  const detail::TraceGuard guard(state_->recorder);
  const auto gradients = state_->run_backward(defined, create_graph);
  if (create_graph) check_differentiable_again(gradients, state_->recorder);
  return state_->assemble(gradients, State::Fate::kStays);
}

Joint JointCapture::joint() { return joint(std::vector<bool>(state_->tangents.size(), true)); }

Joint JointCapture::take_joint() {
  const detail::TraceGuard guard(state_->recorder);
  const std::vector<bool> all(state_->tangents.size(), true);
  return state_->assemble(state_->run_backward(all, /*create_graph=*/false), State::Fate::kLeaves);
}

void JointCapture::release_arguments() { state_->recorder.release_arguments(); }

const ForwardPlan& JointCapture::plan() const { return state_->analysis.plan; }

std::vector<at::Tensor> JointCapture::free_variables() const {
  std::vector<at::Tensor> real;
  const auto& primals = state_->recorder.primals();
  for (size_t i = state_->num_arguments; i < primals.size(); ++i) real.push_back(primals[i].real);
  return real;
}

}  // namespace diptych
