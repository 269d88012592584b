// Keeps apart what a checkpoint computes twice.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "diptych/graph/graph.h"
#include "diptych/xla/hlo/hlo_writer.h"

namespace diptych::detail {

/// Note [Recomputation and XLA]
/// A backward that runs a checkpoint region again holds the region's operations a second time. Where both halves are
/// one program, XLA would merge the two, and so keep all that the checkpoint dropped. So whatever a recomputed node
/// reads from outside its region passes through an optimization_barrier, after which XLA takes it for another value.
/// The barrier also takes in the gradient that the recomputation is for: the recomputed values then can't be computed
/// before the backward gets there, which would hold their memory all along. jax.checkpoint does the same. What is
/// recomputed is read off the graph (is_checkpoint_recomputation()), so one rule serves a backward graph, the body of a
/// loop, and a graph of both halves.
class RecomputationBarriers {
 public:
  explicit RecomputationBarriers(const Graph& graph) : graph_(graph) {}

  /// Lowers node `index` of the graph, as lower_node(). Requires: called for all nodes in order.
  void lower(HloWriter& writer, size_t index, std::vector<Hlo>& values);

 private:
  std::vector<Value> outside_operands(size_t index) const;
  void open_region(HloWriter& writer, size_t begin, const std::vector<Hlo>& values);
  Value awaited_gradient(size_t begin, size_t end) const;
  bool is_gradient(Value value) const;
  bool is_recomputed_in(Value value, InternedString region) const;

  const Graph& graph_;
  /// By region: what stands behind its barriers, by the number of the value.
  std::map<std::string, std::map<int32_t, Hlo>> behind_;
};

}  // namespace diptych::detail
