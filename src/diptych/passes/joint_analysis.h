// What every partitioner must know of a joint graph: which nodes may run where, and which values share storage.
#pragma once
#include <cstdint>
#include <vector>

#include "diptych/passes/partition.h"

namespace diptych::detail {

/// Where a node of a joint graph may run.
enum class Place : uint8_t {
  kForward,   ///< recorded in the user's forward, or needed for a forward output
  kEither,    ///< recorded by autograd, yet independent of tangents: a mask, a derivative at the saved point
  kBackward,  ///< depends on a tangent, or belongs to the backward pass for another reason
};

/// Facts about a joint graph, computed once in time linear in its size.
class JointAnalysis {
 public:
  /// Errors: InternalError if a forward output depends on a tangent.
  explicit JointAnalysis(const Joint& joint);

  const Joint& joint() const { return joint_; }
  const Graph& graph() const { return joint_.graph; }
  Place place(size_t node) const { return places_[node]; }
  /// Whether `value` exists only in the backward pass: a tangent, or made by a node of Place::kBackward.
  bool is_late(Value value) const { return late_[value.id]; }
  /// Whether `value` is an input of the joint graph that is no tangent.
  bool is_primal(Value value) const;
  bool is_constant(Value value) const;
  /// The value whose storage `value` shares: the base of a chain of views, or itself.
  Value root(Value value) const { return roots_[value.id]; }
  /// Whether the storage of `root` is one of the user's outputs, so that it lives beyond the forward anyway.
  bool is_returned(Value root) const { return returned_[root.id]; }
  /// Values that nodes of the backward pass or gradients read and that are not late, by number: what must be saved or
  /// recomputed if nodes of Place::kEither are left to the backward pass (`either_is_late`) or not.
  std::vector<Value> required(bool either_is_late) const;
  /// Bytes of new storage that saving `values` keeps alive: storages of primals, constants and returned values are not
  /// new, and each storage counts once.
  int64_t new_bytes(const std::vector<Value>& values) const;

 private:
  void find_places();
  void find_roots();
  std::vector<bool> needed_by_forward_outputs() const;

  const Joint& joint_;
  std::vector<bool> late_;
  std::vector<Place> places_;
  std::vector<Value> roots_;
  std::vector<bool> returned_;
};

/// Sorts by number and drops duplicates.
std::vector<Value> sorted_unique(std::vector<Value> values);

}  // namespace diptych::detail
