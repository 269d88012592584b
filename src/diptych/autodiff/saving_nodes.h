// What eager's backward keeps alive, and where: which nodes of a traced backward read values of the forward.
#pragma once
#include <unordered_set>
#include <vector>

#include "diptych/autodiff/forward_plan.h"

namespace torch::autograd {
struct Node;
}

namespace diptych {

/// Which gradients a kind of nodes takes part in: those from which tangents, to which primals and crossings. True for
/// each that counts.
struct SavingNode {
  std::vector<bool> tangents;
  std::vector<bool> gradients;
  bool operator==(const SavingNode&) const = default;
};

namespace detail {

class Recorder;
struct Stages;

/// One for each kind of the nodes `saving` of a trace.
std::vector<SavingNode> find_saving_nodes(const Recorder& recorder, const Stages& stages, const ForwardPlan& plan,
                                          const std::unordered_set<const torch::autograd::Node*>& saving);

}  // namespace detail
}  // namespace diptych
