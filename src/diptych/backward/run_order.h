// What one call of autograd's engine is about to run, in its order.
#pragma once
#include <c10/util/SmallVector.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/node.h>

#include <vector>

namespace diptych::detail {

/// One autograd node of a task.
struct RunCall {
  c10::intrusive_ptr<torch::autograd::Node> node;
  uint32_t id = 0;     ///< by which the calls that lead to it know it
  bool needed = true;  ///< whether it runs; else its inputs are only handed out
  struct Capture {
    int input;
    int output;
  };
  c10::SmallVector<Capture, 1> captures;  ///< which of its inputs are results of the task
  bool has_capture_hooks = false;         ///< whether something is called with these results before they are returned
  c10::SmallVector<uint32_t, 3> next;     ///< if it runs, the ids of the nodes that its edges lead to; 0 for none
};

/// The nodes that a task runs, in the order in which the engine runs them on one thread: of those whose gradients have
/// all come, the one that ran last in the forward; gradients are accumulated as soon as they are there.
std::vector<RunCall> calls_in_order(const c10::intrusive_ptr<torch::autograd::Node>& root,
                                    const torch::autograd::GraphTask& task);

}  // namespace diptych::detail
