// Changing scans in a graph: one scan taken apart, what a pass may change in it, and the walk over all scans.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "diptych/graph/rewrite.h"
#include "diptych/ops/emitter.h"
#include "diptych/ops/scan_nodes.h"

namespace diptych::detail {

/// A scan as a pass sees it. Values called `outer` belong to the graph that is being written; `in`, `out` and `value`
/// belong to the old body. A pass changes the lists, calls write(), and maps each old result to its replacement.
///
/// Note [Scans as lists]: write() makes a new body from the lists, with no more than its outputs and effects need. So a
/// list may name any value of the old body: a computed value that becomes an input is no longer computed in the body,
/// and a value that is added to the stacks is stacked.
class ScanEdit {
 public:
  static constexpr int64_t kNoFront = -1;

  struct Carry {
    Value outer;  ///< its value before the first step
    Value in, out;
    Slot in_slot, out_slot;
    size_t result = 0;  ///< index among the old node's results
  };
  struct Input {
    Value outer;
    Value in;
    Slot slot;
  };
  struct Stack {
    Value value;
    Slot slot;
    std::optional<size_t> result = {};  ///< index among the old node's results; nullopt for a new stack
    Value front = {};                   ///< the carry's `in`; see Note [Stacks with a front]
  };

  /// What is known about the values of the surrounding graph.
  struct Uses {
    explicit Uses(const Graph& graph, bool is_top);
    std::vector<bool> is_read;
    std::vector<bool> escapes;
  };
  ScanEdit(const Graph& source, const Node& node, Rewriter& outer, InternedString origin, const Uses& uses);

  std::vector<Carry> carries;
  std::vector<Input> slices;
  std::vector<Input> free;
  std::vector<Stack> stacks;
  ScanAttributes attributes;

  const Graph& body() const { return *body_; }
  const Node& node() const { return node_; }
  Rewriter& outer() { return outer_; }
  /// Replaces the body by one that computes the same and has its inputs and outputs in the same order.
  void set_body(Graph body);

  bool is_used(size_t result) const { return uses_.is_read[node_.outputs[result].id]; }
  /// Whether the replacement of a result must have memory of its own, since the graph's caller gets it.
  bool escapes(size_t result) const { return uses_.escapes[node_.outputs[result].id]; }
  const TensorMeta& result_meta(size_t result) const { return source_.meta(node_.outputs[result]); }

  /// Returns an emitter that writes to the outer graph on behalf of a node of the body.
  Emitter emitter(const Node& like);
  Emitter emitter() { return emitter(node_); }
  /// Copies a node of the body to the outer graph, with the operands that `find` returns; returns its outputs.
  std::vector<Value> copy_outside(const Node& like, const std::function<Value(Value)>& find);

  /// What write() made: the last carries and the stacks, in the order of the lists.
  struct Results {
    std::vector<Value> carries;
    std::vector<Value> stacks;
  };
  /// Appends the scan that the lists describe. Old results are not mapped.
  Results write();
  /// Appends a blocked scan instead, over a body that runs `block` steps.
  Results write_blocked(std::shared_ptr<const Graph> body, int64_t block);
  /// Maps an old result to `value`, in the layout of the old result. If the result escapes, `value` is copied unless
  /// `is_own` says that it has memory of its own.
  void map(size_t result, Value value, bool is_own = false);
  /// Maps each old result that the lists name.
  void map_all(const Results& results);

 private:
  std::shared_ptr<const Graph> write_body();
  Results write_node(const HopSchema& hop, const HopAttributes& written, std::shared_ptr<const Graph> body,
                     const std::vector<TensorMeta>& results);
  ScanAttributes settled_attributes() const;

  const Graph& source_;
  const Node& node_;
  std::shared_ptr<const Graph> body_;
  Rewriter& outer_;
  InternedString origin_;
  const Uses& uses_;
  // The `like` nodes of emitters, which must outlive them.
  std::vector<std::unique_ptr<Node>> likes_;
};

/// Changes one scan; returns false, having written nothing, if there is nothing to change.
using ScanPass = std::function<bool(ScanEdit&)>;

/// Returns `graph` with `pass` applied to each scan whose metadata is static, those inside bodies of other operators
/// first. `origin` names the pass in new nodes.
Graph rewrite_scans(const Graph& graph, std::string_view origin, const ScanPass& pass);

/// Whether a graph holds a scan, including those in bodies of other operators.
bool has_scan(const Node& node);
bool has_scan(const Graph& graph);

/// Returns `value` with the strides of `meta`: itself if it has them, else a copy.
Value with_layout(Emitter& emitter, Value value, const TensorMeta& meta);

}  // namespace diptych::detail
