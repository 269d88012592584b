// Where the nodes of a trace come from: the user's scopes, regions and lines, and for a gradient the node that it is
// of.
#include <ATen/SequenceNumber.h>

#include "diptych/trace/location.h"
#include "diptych/trace/recorder.h"
#include "diptych/trace/scope.h"

namespace diptych::detail {

Provenance Recorder::provenance() {
  Provenance provenance;
  provenance.scope = phase_ == Phase::kForward ? current_place() : current_scope();
  provenance.phase = phase_;
  if (phase_ == Phase::kBackward) {
    provenance.grad_of = forward_value_of(backward_of_);
    if (provenance.grad_of) {
      if (const Node* forward = graph_.producer(provenance.grad_of)) {
        provenance.scope = forward->provenance.scope;
        provenance.region = forward->provenance.region;
      }
    }
  } else if (replayed_ != nullptr) {
    const Provenance& known = replayed_->provenance;
    provenance.scope = known.scope;
    provenance.region = known.region;
    provenance.marks = known.marks;
    provenance.residual_name = known.residual_name;
  } else if (!open_regions_.empty()) {
    provenance.region = open_regions_.back();
  }
  return provenance;
}

// The autograd kernel above has just made the grad_fn whose sequence number is one below the counter.
void Recorder::remember_forward(const Node& node) {
  if (phase_ != Phase::kForward || node.outputs.empty() || !node.outputs[0]) return;
  if (!graph_.meta(node.outputs[0]).requires_grad) return;
  const uint64_t number = at::sequence_number::peek() - 1;
  if (forward_values_.empty()) first_forward_node_ = number;
  if (number < first_forward_node_) return;
  forward_values_.resize(std::max<size_t>(forward_values_.size(), number - first_forward_node_ + 1));
  forward_values_[number - first_forward_node_] = node.outputs[0];
}

Value Recorder::forward_value_of(uint64_t sequence_number) const {
  const uint64_t index = sequence_number - first_forward_node_;  // wraps around for earlier nodes
  return index < forward_values_.size() ? forward_values_[index] : Value{};
}

}  // namespace diptych::detail
