#include "diptych/autodiff/saving_nodes.h"

#include <torch/csrc/dynamo/compiled_autograd.h>

#include <algorithm>
#include <unordered_map>

#include "diptych/autodiff/stages.h"
#include "diptych/trace/custom_function.h"

namespace diptych::detail {
namespace {

namespace ag = torch::autograd;

// Whether a node says that it has saved tensors; a number to multiply with may be one. For a node that can't say,
// `reads_forward` decides.
bool has_saved_tensors(const ag::Node& node, bool reads_forward) {
  if (is_custom_function(node)) return reads_forward;
  try {
    torch::dynamo::autograd::AutogradCompilerCall compiler(torch::dynamo::autograd::SizeInput::STATIC);
    torch::dynamo::autograd::NodeCall call(0, const_cast<ag::Node&>(node).getptr());
    torch::dynamo::autograd::CompiledNodeArgs args(compiler, call);
    node.compiled_args(args);
    return !compiler.tensor_args.inputs.empty();
  } catch (const std::exception&) {
    return reads_forward;
  }
}

class SavingNodeFinder {
 public:
  SavingNodeFinder(const Recorder& recorder, const Stages& stages, const ForwardPlan& plan)
      : stages_(stages),
        plan_(plan),
        places_(recorder, stages),
        num_gradients_(recorder.primals().size() + plan.crossings.size()) {
    for (size_t i = 0; i < stages.tangents.size(); ++i) follow(i);
    std::stable_sort(order_.begin(), order_.end(),
                     [](const ag::Node* a, const ag::Node* b) { return a->topological_nr() < b->topological_nr(); });
    for (const ag::Node* node : order_) gather(*node);
  }

  std::vector<SavingNode> run(const std::unordered_set<const ag::Node*>& saving) const {
    std::vector<SavingNode> found;
    for (const ag::Node* node : order_) {
      const SavingNode& reach = reach_.at(node);
      if (!has_saved_tensors(*node, saving.contains(node))) continue;
      if (std::find(found.begin(), found.end(), reach) == found.end()) found.push_back(reach);
    }
    return found;
  }

 private:
  // Finds the nodes of its stage that a tangent reaches.
  void follow(size_t tangent) {
    if (places_.leaves(nullptr, stages_.tangents[tangent])) return;
    std::vector<const ag::Node*> open{stages_.tangents[tangent].function.get()};
    while (!open.empty()) {
      const ag::Node* node = open.back();
      open.pop_back();
      auto [found, is_new] = reach_.try_emplace(node);
      if (is_new) {
        order_.push_back(node);
        found->second.tangents.resize(plan_.num_tangents());
        found->second.gradients.resize(num_gradients_);
      }
      if (found->second.tangents[tangent]) continue;
      found->second.tangents[tangent] = true;
      for (const ag::Edge& edge : node->next_edges()) {
        if (edge.is_valid() && !places_.leaves(node, edge)) open.push_back(edge.function.get());
      }
    }
  }

  // Called for each node after the nodes that its gradients go on to.
  void gather(const ag::Node& node) {
    auto& gradients = reach_.at(&node).gradients;
    for (const ag::Edge& edge : node.next_edges()) {
      if (!edge.is_valid()) continue;
      if (places_.leaves(&node, edge)) {
        places_.mark(edge, gradients);
        continue;
      }
      const auto behind = reach_.find(edge.function.get());
      if (behind == reach_.end()) continue;
      for (size_t i = 0; i < num_gradients_; ++i) gradients[i] = gradients[i] || behind->second.gradients[i];
    }
  }

  const Stages& stages_;
  const ForwardPlan& plan_;
  GradientPlaces places_;
  size_t num_gradients_;
  std::unordered_map<const ag::Node*, SavingNode> reach_;
  std::vector<const ag::Node*> order_;
};

}  // namespace

std::vector<SavingNode> find_saving_nodes(const Recorder& recorder, const Stages& stages, const ForwardPlan& plan,
                                          const std::unordered_set<const ag::Node*>& saving) {
  return SavingNodeFinder(recorder, stages, plan).run(saving);
}

}  // namespace diptych::detail
