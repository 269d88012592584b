#include "diptych/trace/provenance.h"

#include <ATen/SequenceNumber.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "diptych/base/check.h"
#include "diptych/trace/fake_tensor.h"
#include "diptych/trace/location.h"
#include "diptych/trace/scope.h"

namespace diptych::detail {

Provenance ProvenanceTracker::current() const {
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
    provenance.own_derivative = known.own_derivative;
  } else if (!open_regions_.empty()) {
    provenance.region = open_regions_.back();
  }
  return provenance;
}

// Autograd's kernel has just made the grad_fn, whose sequence number is one below the counter.
void ProvenanceTracker::remember(const Node& node) {
  if (phase_ != Phase::kForward || node.outputs.empty() || !node.outputs[0]) return;
  if (!graph_.meta(node.outputs[0]).requires_grad) return;
  const uint64_t number = at::sequence_number::peek() - 1;
  if (forward_values_.empty()) first_forward_node_ = number;
  if (number < first_forward_node_) return;
  forward_values_.resize(std::max<size_t>(forward_values_.size(), number - first_forward_node_ + 1));
  forward_values_[number - first_forward_node_] = node.outputs[0];
}

Value ProvenanceTracker::forward_value_of(uint64_t sequence_number) const {
  const uint64_t index = sequence_number - first_forward_node_;  // wraps around for earlier nodes
  return index < forward_values_.size() ? forward_values_[index] : Value{};
}

void ProvenanceTracker::begin_backward(bool create_graph) {
  phase_ = Phase::kBackward;
  create_graph_ = create_graph;
  lost_history_ = {};
}

// In a backward without create_graph the grad mode is off throughout, so it tells nothing about the operators in it.
bool ProvenanceTracker::records_gradients() const {
  return (phase_ == Phase::kBackward && !create_graph_) || c10::GradMode::is_enabled();
}

void ProvenanceTracker::enter_region(CheckpointPolicy policy) {
  DIPTYCH_CHECK(open_regions_.size() < RegionMarks::kMaxDepth,
                "[checkpoint] got a region inside {}, expected at most {}; nest checkpoints less deeply",
                with_scope(fmt::format("{} others", open_regions_.size()), current_place()),
                RegionMarks::kMaxDepth - 1);
  const auto name = fmt::format("checkpoint.{}", regions_.regions.size());
  const InternedString path(open_regions_.empty() ? name : open_regions_.back().str() + "/" + name);
  regions_.regions.push_back({path, std::move(policy)});
  open_regions_.push_back(path);
}

void ProvenanceTracker::name_residual(Value value, std::string_view name) {
  const auto& info = value ? graph_.info(value) : ValueInfo{};
  if (info.node < 0) {
    regions_.input_names.emplace_back(name);
    return;
  }
  Provenance provenance = graph_.nodes()[info.node].provenance;
  if (has_residual_name(provenance.residual_name, name)) return;
  const auto& known = provenance.residual_name.str();
  provenance.residual_name = InternedString(known.empty() ? std::string(name) : fmt::format("{},{}", known, name));
  graph_.set_provenance(info.node, provenance);
}

// Where a Function or a hook on saved tensors returns another tensor, autograd continues on the history of that one.
void ProvenanceTracker::note_operand(const at::Tensor& operand, const PrimalTable& primals) {
  if (!operand.requires_grad()) return;
  const Value value = as_fake(operand)->value;
  const Node* producer = graph_.producer(value);
  const bool is_of_forward = producer != nullptr && producer->provenance.phase == Phase::kForward;
  if (!is_of_forward || graph_.meta(value).requires_grad) return;
  // A history that ends at leaves of the function's own concerns nothing outside.
  if (primals.reached_from(torch::autograd::impl::gradient_edge(operand))) lost_history_ = value;
}

}  // namespace diptych::detail
