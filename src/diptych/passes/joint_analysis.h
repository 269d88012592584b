// What every partitioner must know about a joint graph: which nodes may run where, and which values share storage.
#pragma once
#include <cstdint>
#include <vector>

#include "diptych/passes/partition.h"

namespace diptych::detail {

/// Where a node of a joint graph may run.
enum class JointPlace : uint8_t {
  kForward,   ///< recorded in the user's forward, or needed for a forward output
  kEither,    ///< recorded by autograd, yet independent of tangents: a mask, a derivative at the saved point
  kBackward,  ///< depends on a tangent, or belongs to the backward for another reason
};

/// Facts about a joint graph, computed once in time linear in its size.
class JointAnalysis {
 public:
  /// Errors: InternalError if a forward output depends on a tangent.
  explicit JointAnalysis(const Joint& joint);

  const Joint& joint() const { return joint_; }
  const Graph& graph() const { return joint_.graph; }
  JointPlace place(size_t node) const { return places_[node]; }
  /// Whether `value` exists only in the backward: a tangent, or made by a node of JointPlace::kBackward.
  bool is_late(Value value) const { return late_[value.id]; }
  /// Whether `value` is an input of the joint graph that is not a tangent.
  bool is_primal(Value value) const;
  bool is_constant(Value value) const;
  /// The value whose storage `value` shares: the base of a chain of views, or itself.
  Value root(Value value) const { return roots_[value.id]; }
  /// Whether the storage of `root` is one of the user's outputs, so that it lives beyond the forward anyway.
  bool is_returned(Value root) const { return returned_[root.id]; }
  /// Returns the values that are not late and that the nodes of the backward or the gradients read, by number: they
  /// must be saved or recomputed. `either_is_late` says whether nodes of JointPlace::kEither are left to the backward.
  /// Values that checkpoints want recomputed are replaced by those that they are computed from.
  std::vector<Value> required(bool either_is_late) const;

  /// Whether any node carries a mark that decides about it; see Note [Checkpoint regions].
  bool has_marks() const { return has_marks_; }
  /// Whether a mark says that the node's values are saved if the backward needs them.
  bool must_save(size_t node) const;
  /// Whether the node runs again whenever the backward needs its values: a mark says so and it has no effect, or it
  /// was recorded by autograd and reads such values.
  bool must_recompute(size_t node) const { return must_recompute_[node]; }
  /// Whether a node outside the region that decided about the maker of `value` reads it in the forward: such a value
  /// may be saved although its maker must be recomputed.
  bool leaves_region(Value value) const { return leaves_region_[value.id]; }
  /// Returns a partitioner's choice of saved values corrected by the marks: without those that must be recomputed, with
  /// all that must be saved and are needed, and with those that the recomputed ones are computed from.
  std::vector<Value> obey_marks(const std::vector<Value>& chosen) const;
  /// Bytes of new storage that saving `values` keeps alive: storages of primals, constants and returned values are not
  /// new, and each storage counts once.
  int64_t new_bytes(const std::vector<Value>& values) const;

 private:
  void find_places();
  void find_roots();
  void find_marks();
  std::vector<bool> recomputed_for(const std::vector<bool>& is_chosen) const;
  bool is_outside(Value value, const Node& reader) const;
  template <class IsSaved>
  std::vector<Value> saved_if(const IsSaved& is_saved) const;
  std::vector<bool> needed_by_forward_outputs() const;

  const Joint& joint_;
  std::vector<bool> late_;
  std::vector<JointPlace> places_;
  std::vector<Value> roots_;
  std::vector<bool> returned_;
  bool has_marks_ = false;
  std::vector<bool> must_recompute_;
  std::vector<bool> leaves_region_;
};

/// Sorts by number and drops duplicates.
std::vector<Value> sorted_unique(std::vector<Value> values);

}  // namespace diptych::detail
