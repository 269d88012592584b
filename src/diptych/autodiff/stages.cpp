#include "diptych/autodiff/stages.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <unordered_set>

namespace diptych::detail {
namespace {

namespace ag = torch::autograd;
using Crossing = ForwardPlan::Crossing;

bool is_leaf_node(const ag::Node* node) { return dynamic_cast<const ag::AccumulateGrad*>(node) != nullptr; }

bool is_made_around_the_graph(const OutputPlan& output) {
  return output.kind == OutputPlan::Kind::kOfPrimal || output.kind == OutputPlan::Kind::kOfSlot ||
         output.kind == OutputPlan::Kind::kRegenerated;
}

// Returns the present node of a view; none if the base has changed since, so that nothing has been computed from the
// view as it is now.
ag::Edge edge_of_view(const at::Tensor& view) {
  const auto* meta = ag::impl::get_autograd_meta(view);
  if (meta == nullptr || !meta->grad_fn_) return {};
  if (view.is_view()) {
    const auto* as_view = ag::impl::get_view_autograd_meta(view);
    if (as_view != nullptr && as_view->has_bw_view() && as_view->get_attr_version() != view._version()) return {};
  }
  return {meta->grad_fn_, meta->output_nr_};
}

class StageFinder {
 public:
  StageFinder(Recorder& recorder, const std::vector<at::Tensor>& outputs, OutputAnalysis& analysis)
      : recorder_(recorder), outputs_(outputs), analysis_(analysis), plan_(analysis.plan) {
    for (const auto& primal : recorder.primals()) {
      for (const ag::Edge& edge : {primal.edge, edge_outside(primal)}) {
        if (edge.is_valid()) ends_.insert(edge.function.get());
      }
    }
  }

  Stages run() {
    find_results();
    const auto inner = find_inner();
    if (!inner.empty()) {
      number_stages(inner);
      for (size_t i = 0; i < plan_.differentiable.size(); ++i) {
        plan_.stage_of_tangent[i] = stages_.of(stages_.tangents[i].function.get());
      }
      find_crossings();
    }
    return std::move(stages_);
  }

 private:
  struct Result {
    ag::Edge edge;
    Crossing crossing;
  };

  void find_results();
  std::vector<ag::Node*> find_inner() const;
  void number_stages(std::vector<ag::Node*> inner);
  void find_crossings();
  void cross(const ag::Edge& edge);
  void add_result(ag::Edge edge, Crossing crossing) {
    if (edge.is_valid() && !ends_.contains(edge.function.get())) results_.push_back({std::move(edge), crossing});
  }
  /// Calls `visit` with each edge that can be reached from a node, except edges into primals; `visit` returns whether
  /// to go on.
  template <class Visit>
  void follow(const ag::Node& from, const Visit& visit) const {
    std::vector<const ag::Node*> open{&from};
    while (!open.empty()) {
      const ag::Node* node = open.back();
      open.pop_back();
      for (const ag::Edge& edge : node->next_edges()) {
        if (!edge.is_valid() || ends_.contains(edge.function.get())) continue;
        if (visit(edge)) open.push_back(edge.function.get());
      }
    }
  }

  Recorder& recorder_;
  const std::vector<at::Tensor>& outputs_;
  OutputAnalysis& analysis_;
  ForwardPlan& plan_;
  std::unordered_set<const ag::Node*> ends_;  ///< where gradients of primals arrive
  std::vector<Result> results_;
  Stages stages_;
};

void StageFinder::find_results() {
  using Kind = Crossing::Kind;
  for (const size_t slot : plan_.differentiable) {
    const auto& [kind, path, tensor, value] = analysis_.slots[slot];
    stages_.tangents.push_back(ag::impl::gradient_edge(tensor));
    plan_.stage_of_tangent.push_back(0);
    add_result(stages_.tangents.back(), {Kind::kSlot, slot, 0, value});
  }
  for (const size_t slot : plan_.fresh_leaves) {
    const auto& leaf = analysis_.slots[slot];
    add_result(ag::impl::gradient_edge(leaf.tensor), {Kind::kLeaf, slot, 0, leaf.value});
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (!is_made_around_the_graph(plan_.outputs[i]) || !plan_.outputs[i].requires_grad) continue;
    add_result(edge_of_view(outputs_[i]), {Kind::kOutput, i, 0, recorder_.value_of(outputs_[i])});
  }
  for (const auto& mutation : plan_.mutations) {
    const auto& primal = recorder_.primals()[mutation.primal];
    if (mutation.data || !primal.edge.is_valid()) continue;
    add_result(edge_of_view(primal.stand_in), {Kind::kPrimal, mutation.primal, 0, recorder_.value_of(primal.stand_in)});
  }
}

// The nodes of results that other results are computed from, leaves included.
std::vector<ag::Node*> StageFinder::find_inner() const {
  std::unordered_set<const ag::Node*> behind;
  for (const Result& result : results_) {
    follow(*result.edge.function, [&](const ag::Edge& edge) { return behind.insert(edge.function.get()).second; });
  }
  std::vector<ag::Node*> inner;
  for (const Result& result : results_) {
    ag::Node* node = result.edge.function.get();
    if (behind.contains(node) && std::find(inner.begin(), inner.end(), node) == inner.end()) inner.push_back(node);
  }
  return inner;
}

// A node from which another can be reached is farther from the leaves. Nodes behind several inner results belong to the
// last of them.
void StageFinder::number_stages(std::vector<ag::Node*> inner) {
  std::stable_sort(inner.begin(), inner.end(),
                   [](const ag::Node* a, const ag::Node* b) { return a->topological_nr() > b->topological_nr(); });
  plan_.num_stages = inner.size() + 1;
  for (size_t stage = inner.size(); stage > 0; --stage) {
    const ag::Node* first = inner[stage - 1];
    stages_.of_node.emplace(first, stage);
    follow(*first, [&](const ag::Edge& edge) { return stages_.of_node.emplace(edge.function.get(), stage).second; });
  }
}

void StageFinder::find_crossings() {
  std::unordered_set<const ag::Node*> seen;
  const auto visit = [&](const ag::Node& from) {
    std::vector<const ag::Node*> open{&from};
    while (!open.empty()) {
      const ag::Node* node = open.back();
      open.pop_back();
      if (!seen.insert(node).second) continue;
      for (const ag::Edge& edge : node->next_edges()) {
        if (!edge.is_valid() || ends_.contains(edge.function.get())) continue;
        if (stages_.of(edge.function.get()) > stages_.of(node)) cross(edge);
        open.push_back(edge.function.get());
      }
    }
  };
  for (const Result& result : results_) visit(*result.edge.function);
}

void StageFinder::cross(const ag::Edge& edge) {
  if (std::find(stages_.crossings.begin(), stages_.crossings.end(), edge) != stages_.crossings.end()) return;
  const size_t stage = stages_.of(edge.function.get());
  const auto known =
      std::find_if(results_.begin(), results_.end(), [&](const Result& result) { return result.edge == edge; });
  Crossing crossing;
  if (known != results_.end()) {
    crossing = known->crossing;
  } else if (is_leaf_node(edge.function.get())) {
    return;  // a leaf that nobody but the function has seen
  } else {
    crossing = {Crossing::Kind::kHidden, stages_.tangents.size(), stage, {}};
    const auto& expected = edge.function->input_metadata(edge.input_nr);
    TensorMeta meta;
    meta.dtype = c10::typeMetaToScalarType(expected.dtype());
    meta.device = expected.device();
    for (const auto& size : expected.shape_as_dim_vector()) meta.sizes.emplace_back(size.expect_int());
    meta.strides = contiguous_strides(meta.sizes);
    plan_.hidden.push_back(std::move(meta));
    plan_.stage_of_tangent.push_back(stage);
    stages_.tangents.push_back(edge);
  }
  crossing.stage = stage;
  plan_.crossings.push_back(crossing);
  stages_.crossings.push_back(edge);
}

// In eager an argument that no result is computed from takes no part in the backward, and its history is not run.
std::vector<std::vector<bool>> find_destinations(const Recorder& recorder, const Stages& stages,
                                                 const ForwardPlan& plan) {
  const GradientPlaces places(recorder, stages);
  std::vector<std::vector<bool>> found(plan.num_stages,
                                       std::vector<bool>(recorder.primals().size() + stages.crossings.size()));
  std::unordered_set<const ag::Node*> seen;
  for (size_t i = 0; i < stages.tangents.size(); ++i) {
    std::vector<bool>& destinations = found[plan.stage_of_tangent[i]];
    std::vector<const ag::Node*> open;
    const auto go = [&](const ag::Node* from, const ag::Edge& edge) {
      if (!edge.is_valid()) return;
      if (places.leaves(from, edge)) return places.mark(edge, destinations);
      if (seen.insert(edge.function.get()).second) open.push_back(edge.function.get());
    };
    go(nullptr, stages.tangents[i]);
    while (!open.empty()) {
      const ag::Node* node = open.back();
      open.pop_back();
      for (const ag::Edge& edge : node->next_edges()) go(node, edge);
    }
  }
  return found;
}

}  // namespace

ag::Edge edge_outside(const Primal& primal) {
  if (!primal.edge.is_valid() || !primal.real.defined()) return {};
  const auto* const meta = ag::impl::get_autograd_meta(primal.real);
  if (meta == nullptr) return {};
  if (meta->grad_fn_) return {meta->grad_fn_, meta->output_nr_};
  return {meta->grad_accumulator_.lock(), 0};
}

GradientPlaces::GradientPlaces(const Recorder& recorder, const Stages& stages)
    : stages_(stages), num_primals_(recorder.primals().size()) {
  for (size_t i = 0; i < num_primals_; ++i) {
    const Primal& primal = recorder.primals()[i];
    for (const ag::Edge& edge : {primal.edge, edge_outside(primal)}) {
      if (edge.is_valid()) places_[edge.function.get()].emplace_back(edge.input_nr, i);
    }
  }
  for (size_t i = 0; i < stages.crossings.size(); ++i) {
    places_[stages.crossings[i].function.get()].emplace_back(stages.crossings[i].input_nr, num_primals_ + i);
  }
}

bool GradientPlaces::leaves(const ag::Node* from, const ag::Edge& edge) const {
  const auto known = places_.find(edge.function.get());
  if (known == places_.end()) return false;
  if (known->second.front().second < num_primals_) return true;
  return from != nullptr && stages_.of(edge.function.get()) > stages_.of(from);
}

void GradientPlaces::mark(const ag::Edge& edge, std::vector<bool>& gradients) const {
  for (const auto& [input, place] : places_.at(edge.function.get())) {
    if (input == edge.input_nr) gradients[place] = true;
  }
}

Stages find_stages(Recorder& recorder, const std::vector<at::Tensor>& outputs, OutputAnalysis& analysis, bool cuts) {
  Stages stages;
  if (cuts) {
    stages = StageFinder(recorder, outputs, analysis).run();
  } else {
    for (const size_t slot : analysis.plan.differentiable) {
      stages.tangents.push_back(ag::impl::gradient_edge(analysis.slots[slot].tensor));
      analysis.plan.stage_of_tangent.push_back(0);
    }
  }
  analysis.plan.leads_to = find_destinations(recorder, stages, analysis.plan);
  return stages;
}

}  // namespace diptych::detail
