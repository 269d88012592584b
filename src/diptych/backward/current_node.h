// For which autograd node a captured run calls code of the user.
#pragma once
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/node.h>

namespace diptych::detail {

/// While it lives, a captured run calls code of the user for `node`: a hook, the unpacking of what it has saved, or the
/// node itself. The engine tells such code of its own nodes by torch::autograd::get_current_node(), and LibTorch lets
/// nobody else set that. Requires: is destroyed on the thread that made it, the last one first.
class CurrentNode {
 public:
  explicit CurrentNode(c10::intrusive_ptr<torch::autograd::Node> node);
  ~CurrentNode();
  CurrentNode(const CurrentNode&) = delete;
  CurrentNode& operator=(const CurrentNode&) = delete;

  /// Returns the node that this thread evaluates, be it in a captured run or in the engine; null if there is none.
  static c10::intrusive_ptr<torch::autograd::Node> get();

 private:
  c10::intrusive_ptr<torch::autograd::Node> node_;
  c10::intrusive_ptr<torch::autograd::Node> engines_;  ///< at its begin
  const CurrentNode* outer_;
};

}  // namespace diptych::detail
