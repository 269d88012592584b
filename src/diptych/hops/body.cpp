#include "diptych/hops/body.h"

#include <algorithm>

#include "diptych/base/check.h"
#include "diptych/graph/rewrite.h"
#include "diptych/graph/subgraphs.h"
#include "diptych/hops/custom_vjp/custom_vjp_operator.h"
#include "diptych/hops/replay.h"
#include "diptych/hops/strides.h"
#include "diptych/ops/tags.h"
#include "diptych/scan_passes/pipeline.h"
#include "diptych/trace/placeholder.h"
#include "diptych/trace/recorder.h"

namespace diptych {

using namespace detail;
namespace {

bool any_draws(const Graph& graph) { return std::any_of(graph.nodes().begin(), graph.nodes().end(), draws_random); }

template <class T>
std::vector<T> first(const std::vector<T>& list, size_t count) {
  return {list.begin(), list.begin() + static_cast<int64_t>(count)};
}

// Returns the forward alone: no tangents, and no new values of mutated inputs. Drawing nodes stay, used or not.
std::shared_ptr<const Graph> forward_graph(JointCapture& capture, const std::string& name) {
  const Joint joint = capture.joint(std::vector<bool>(capture.plan().differentiable.size()));
  std::vector<size_t> drawing;
  for (size_t i = 0; i < joint.graph.nodes().size(); ++i) {
    if (draws_random(joint.graph.nodes()[i])) drawing.push_back(i);
  }
  const size_t num_inputs = joint.layout.num_primals();
  const size_t num_results = joint.layout.num_outputs;
  Graph graph =
      extract(joint.graph, name, first(joint.graph.inputs(), num_inputs), first(joint.graph.input_slots(), num_inputs),
              first(joint.graph.outputs(), num_results), first(joint.graph.output_slots(), num_results), drawing);
  graph = lower(Stage::kBody, std::move(graph), {.simplify = {.keep_gradient_stops = true}});
  mark_own_derivative(graph, capture.plan());
  return std::make_shared<const Graph>(std::move(graph));
}

// Passes move nodes out of a loop's body into the graph around it, and the nodes keep their mark. The derivative of a
// custom_vjp is its rule, whatever its bodies do.
bool has_marked_nodes(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    if (node.provenance.own_derivative) return true;
    const bool has_rule = node.op.is_hop() && &node.op.hop() == &CustomVjpOperator::get().schema();
    return !has_rule && any_subgraph(node, has_marked_nodes);
  });
}

// The graph's nodes carry their grad mode, scopes and checkpoint regions, and its casts are nodes, so replaying it is
// enough.
FlatFunction function_of(std::shared_ptr<const Program> program) {
  return [program = std::move(program)](const std::vector<at::Tensor>& inputs) {
    FlatResult result{replay(*program, inputs), {}};
    for (const auto& slot : program->graph().output_slots()) result.paths.push_back(slot.path);
    return result;
  };
}

// Refuses a gradient that leads only to leaves made by the body itself: no caller could take it, and no operator could
// have it.
void check_no_history_of_its_own(const ForwardPlan& plan, bool any_requires_grad, const std::string& name) {
  std::vector<size_t> own = plan.fresh_leaves;
  if (!any_requires_grad) own.insert(own.end(), plan.differentiable.begin(), plan.differentiable.end());
  own.erase(std::remove_if(own.begin(), own.end(), [&](size_t slot) { return slot >= plan.output_paths.size(); }),
            own.end());
  DIPTYCH_CHECK(own.empty(),
                "[{}] the body returns '{}', which requires grad through a leaf that the body makes itself, so no "
                "caller could get that gradient; return detach() of it, or make the leaf outside the body",
                name, plan.output_paths[own.front()]);
}

}  // namespace

Body::Body(const FlatFunction& function, const std::vector<at::Tensor>& arguments,
           const std::vector<std::string>& paths, const std::string& name, bool asks)
    : capture_(std::make_shared<SharedCapture>(
          function, arguments, paths,
          CaptureOptions{.name = name, .exact_outputs = true, .answers_questions = asks, .takes_wrapped = true})) {
  graph_ = forward_graph(capture_->capture, name);
  free_variables_ = capture_->capture.free_variables();
  mutations_ = capture_->capture.plan().mutations;
  // As the trace saw them: a tensor that a level wraps may be differentiated at another level.
  for (size_t i = 0; i < num_inputs(); ++i) traced_requires_grad_.push_back(input(i).requires_grad);
  const auto& traced = traced_requires_grad_;
  check_no_history_of_its_own(capture_->capture.plan(), std::find(traced.begin(), traced.end(), true) != traced.end(),
                              name);
  capture_->capture.release_arguments();
  draws_ = any_draws(*graph_);
  own_derivative_ = rewrites_history() || has_own_rule() || has_marked_nodes(*graph_);
  differentiable_.resize(num_results());
  for (const size_t slot : capture_->capture.plan().differentiable) {
    if (slot < num_results()) differentiable_[slot] = true;
  }
}

Body::Body(std::shared_ptr<const Graph> graph)
    : graph_(std::move(graph)), draws_(any_draws(*graph_)), own_derivative_(has_marked_nodes(*graph_)) {}

const Program& Body::program() const {
  const std::lock_guard lock(mutex_);
  if (!program_) program_ = std::make_shared<const Program>(*graph_);
  return *program_;
}

std::vector<at::Tensor> Body::run(std::vector<at::Tensor>&& inputs, const RunOptions& options) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    at::Tensor laid_out = with_strides(inputs[i], input(i));
    inputs[i] = std::move(laid_out);
  }
  return program().run(std::move(inputs), options);
}

// The graph knows less than the capture: where a carry is overwritten it holds what it is overwritten by.
bool Body::carry_settles_to_require_grad(size_t carry, const std::vector<bool>& requires_grad,
                                         size_t num_carries) const {
  const auto begin = static_cast<int64_t>(num_carries);
  return capture_ && traced_requires_grad_[carry] && differentiable_[carry] &&
         std::equal(requires_grad.begin() + begin, requires_grad.end(), traced_requires_grad_.begin() + begin,
                    traced_requires_grad_.end());
}

// Only the code itself knows which gradients flow. An input that required grad in the capture but does not here has a
// gradient that nobody takes.
std::shared_ptr<SharedCapture> Body::capture_that_covers(const std::vector<bool>& requires_grad) const {
  bool covers = capture_ != nullptr;
  for (size_t i = 0; covers && i < requires_grad.size(); ++i) {
    covers = traced_requires_grad_[i] || !requires_grad[i];
  }
  DIPTYCH_CHECK(covers,
                "[{}] the body calls a torch::autograd::Function or registers a hook, or changes a tensor in place "
                "where autograd does not see it (under no_grad, through detach() or by .data), so its derivative is "
                "known only for inputs with the requires_grad that they were captured with; pass tensors that require "
                "grad in the same places, or use custom_vjp, or an out-of-place operator",
                graph_->name());
  return capture_;
}

std::shared_ptr<SharedCapture> Body::capture_with(const std::vector<bool>& requires_grad) const {
  if (capture_ && requires_grad == traced_requires_grad_) return capture_;
  if (own_derivative_) return capture_that_covers(requires_grad);
  std::vector<at::Tensor> placeholders;
  std::vector<std::string> paths;
  for (size_t i = 0; i < num_inputs(); ++i) {
    TensorMeta meta = input(i);
    meta.requires_grad = requires_grad[i];
    placeholders.push_back(make_placeholder(meta));
    paths.push_back(graph_->input_slots()[i].path);
  }
  if (!program_) program_ = std::make_shared<const Program>(*graph_);
  const at::AutoGradMode grad_mode(true);
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  return std::make_shared<SharedCapture>(function_of(program_), placeholders, paths,
                                         CaptureOptions{graph_->name(), true});
}

std::shared_ptr<const BodyPair> Body::pair(const std::vector<bool>& requires_grad, size_t num_carries,
                                           bool create_graph) const {
  const std::lock_guard lock(mutex_);
  for (const auto& known : pairs_) {
    const bool fits = known.requires_grad == requires_grad && known.num_carries == num_carries;
    if (fits && known.create_graph == create_graph) return known.pair;
  }
  DIPTYCH_CHECK(!create_graph || !has_own_rule(),
                "[{}] the body calls a torch::autograd::Function or registers a hook, whose backward can't be "
                "differentiated again; use custom_vjp, or call backward without create_graph",
                graph_->name());
  DIPTYCH_CHECK(
      !create_graph || !capture_ || !capture_->capture.plan().hides_history,
      "[{}] the body changes a tensor in place where autograd does not see it (under no_grad, through "
      "detach() or by .data), so its backward can't be differentiated again; use an out-of-place operator there",
      graph_->name());
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  auto pair = std::make_shared<const BodyPair>(capture_with(requires_grad), num_results(), num_carries, create_graph,
                                               min_cut());
  pairs_.push_back({requires_grad, num_carries, create_graph, pair});
  return pair;
}

}  // namespace diptych
