#include "diptych/backward/current_node.h"

#include <utility>

namespace diptych::detail {
namespace {

thread_local const CurrentNode* innermost_node = nullptr;

}  // namespace

CurrentNode::CurrentNode(c10::intrusive_ptr<torch::autograd::Node> node)
    : node_(std::move(node)), engines_(torch::autograd::get_current_node()), outer_(innermost_node) {
  innermost_node = this;
}

CurrentNode::~CurrentNode() { innermost_node = outer_; }

c10::intrusive_ptr<torch::autograd::Node> CurrentNode::get() {
  auto engines = torch::autograd::get_current_node();
  const bool is_inside =
      innermost_node != nullptr && innermost_node->engines_ == engines;  // and no run of the engine is
  return is_inside ? innermost_node->node_ : engines;
}

}  // namespace diptych::detail
