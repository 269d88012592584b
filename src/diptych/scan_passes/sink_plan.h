// Which part of a scan's body can wait until the loop is over, and what the loop must stack for it.
#pragma once
#include <vector>

#include "diptych/scan_passes/body_flow.h"

namespace diptych::detail {

struct SinkOptions {
  bool only_views = false;  ///< move nothing but views of what is stacked
};

/// Note [What is sunk]
/// A node that no next carry needs can run once, over the stacks of what it reads. A carry that is a running sum,
/// acc' = acc + f where nothing else reads acc, does not need f in any step either: its last value is the first plus
/// the sum of f over the steps, which ops/summing.h may know without computing any f. The plan starts with every node
/// that no other carry needs and puts nodes back into the body:
/// - from the end, nodes for which there is no rule, or that a node in the body reads;
/// - from the front, nodes for which stacking what they read takes more memory than stacking what they make. Exempt are
///   matrix products with a fixed matrix and products that are summed, since T small ones are much slower than one
///   large one, and nodes that cost nothing because everything that they read is stacked anyway. An elementwise
///   operator is worth an extra stack only for small slices;
/// - the readers of the largest new stack, while all new stacks together take more than the scan's slices and stacks
///   did before.
///
/// So memory at most doubles, and a body that computes again what it did not want to keep does not keep it here. A
/// running sum whose f would have to be stacked stays in the loop, unless f is small: T values of f are rarely worth
/// the cost of one addition in place.
class SinkPlan {
 public:
  SinkPlan(const ScanEdit& edit, const SinkOptions& options);

  bool any() const;
  /// Whether a node, by index, runs after the loop.
  bool is_moved(size_t node) const { return moved_[node]; }
  /// Whether only the sum over the steps of a moved node's result is needed.
  bool is_only_summed(size_t node) const { return only_summed_[node]; }
  struct Sum {
    size_t carry = 0;
    Value term;
  };
  const std::vector<Sum>& sums() const { return sums_; }
  /// Values of the body that must be stacked, in order.
  std::vector<Value> stacked() const;

 private:
  void find_sums();
  void mark_needed();
  void mark_moved();
  bool may_move(size_t index) const;
  bool has_rule(size_t index) const;
  bool is_summed_by_all(Value value) const;
  bool put_back_one();
  bool keep_in_budget();
  bool gains(size_t index) const;
  void mark_anchored();
  Value base(Value value) const;
  bool drop_costly_sum();
  bool is_from_loop(Value value) const;
  int64_t extra_bytes(size_t index) const;

  const ScanEdit& edit_;
  const Graph& body_;
  SinkOptions options_;
  BodyFlow flow_;
  std::vector<Sum> sums_;
  std::vector<bool> is_sum_;      ///< by node: the addition of a sum
  std::vector<bool> is_term_;     ///< by value
  std::vector<bool> is_stacked_;  ///< by value: an output that is stacked
  std::vector<bool> is_fronted_;  ///< by value: stacked with a front; such a stack stays as it is
  std::vector<bool> needed_;      ///< by node
  std::vector<bool> put_back_, moved_, only_summed_;
  std::vector<bool> anchored_;  ///< by value: stacked for a node that gains by it
};

}  // namespace diptych::detail
