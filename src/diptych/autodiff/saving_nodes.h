// What eager's backward keeps alive, and where: which nodes of a traced backward read values of the forward.
#pragma once
#include <unordered_set>
#include <vector>

#include "diptych/autodiff/forward_plan.h"

namespace torch::autograd {
struct Node;
}

namespace diptych::detail {

/// Which gradients one kind of node takes part in: `tangents` marks where they come from, `gradients` marks the primals
/// and crossings that they go to.
struct SavingNode {
  std::vector<bool> tangents;
  std::vector<bool> gradients;
  bool operator==(const SavingNode&) const = default;
};

class Recorder;
struct Stages;

/// Returns one entry for each kind of node in `saving`, the nodes of a trace that read values of the forward.
std::vector<SavingNode> find_saving_nodes(const Recorder& recorder, const Stages& stages, const ForwardPlan& plan,
                                          const std::unordered_set<const torch::autograd::Node*>& saving);

}  // namespace diptych::detail
