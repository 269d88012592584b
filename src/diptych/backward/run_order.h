// What one call of autograd's engine is about to run, in its order.
#pragma once
#include <c10/util/SmallVector.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/node.h>

#include <vector>

namespace diptych::detail {

/// One autograd node of a run.
struct RunCall {
  c10::intrusive_ptr<torch::autograd::Node> node;
  uint32_t id = 0;     ///< by which the calls that lead to it refer to it
  bool needed = true;  ///< whether it runs; else its inputs are only handed out
  struct Capture {
    int input;
    int output;
  };
  c10::SmallVector<Capture, 1> captures;  ///< which of its inputs are results of the run
  bool has_capture_hooks = false;         ///< whether something is called with these results before they are returned
  c10::SmallVector<uint32_t, 3> next;     ///< if it runs, the ids of the nodes that its edges lead to; 0 for none
};

/// Returns the nodes that a run executes, in the engine's order on one thread: among the nodes whose gradients have all
/// arrived, the one that ran last in the forward goes first; gradients are accumulated as soon as they arrive.
std::vector<RunCall> calls_in_order(const c10::intrusive_ptr<torch::autograd::Node>& root,
                                    const torch::autograd::GraphTask& task);

}  // namespace diptych::detail
