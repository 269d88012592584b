// Changing scans in a graph: one scan taken apart, what a pass may change of it, and the walk over all scans.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "diptych/graph/rewrite.h"
#include "diptych/ops/emitter.h"
#include "diptych/ops/scan_nodes.h"

namespace diptych::detail {

/// A scan as a pass sees it. Values called `outer` are of the graph that is being written; `in`, `out` and `value` are
/// of the body as it was. A pass changes the lists, calls write(), and says what stands for each old result.
///
/// Note [Scans as lists]: a body is written anew from the lists, with no more than its outputs and effects need. So a
/// list may name any value of the old body: a computed value among the inputs is no longer computed there, and one
/// among the stacks is stacked from now on.
class ScanEdit {
 public:
  static constexpr int64_t kNoFront = -1;

  struct Carry {
    Value outer;  ///< the first one
    Value in, out;
    Slot in_slot, out_slot;
    size_t result = 0;  ///< of the old node
  };
  struct Input {
    Value outer;
    Value in;
    Slot slot;
  };
  struct Stack {
    Value value;
    Slot slot;
    std::optional<size_t> result = {};  ///< of the old node; nothing for a new stack
    Value front = {};                   ///< the carry's `in`; see Note [Stacks with a front]
  };

  /// What is known of the values of the graph around.
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
  /// Replaces the body by one that computes the same from inputs and outputs in the same order.
  void set_body(Graph body);

  bool is_used(size_t result) const { return uses_.is_read[node_.outputs[result].id]; }
  /// Whether what stands for a result must have memory of its own: the graph's caller gets it.
  bool escapes(size_t result) const { return uses_.escapes[node_.outputs[result].id]; }
  const TensorMeta& result_meta(size_t result) const { return source_.meta(node_.outputs[result]); }

  /// Writes to the outer graph, on behalf of a node of the body.
  Emitter emitter(const Node& like);
  Emitter emitter() { return emitter(node_); }
  /// Copies a node of the body whose operands `find` knows outside; returns its outputs.
  std::vector<Value> copy_outside(const Node& like, const std::function<Value(Value)>& find);

  /// What write() made: the last carries and the stacks, as the lists are.
  struct Results {
    std::vector<Value> carries;
    std::vector<Value> stacks;
  };
  /// Appends the scan as the lists say. Old results are not mapped.
  Results write();
  /// Appends a blocked scan in its place, over a body that makes `block` steps.
  Results write_blocked(std::shared_ptr<const Graph> body, int64_t block);
  /// Says that `value` stands for an old result, with its layout, and with memory of its own if it escapes and
  /// `is_own` does not say that it has.
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
  // `like` of emitters must outlive them.
  std::vector<std::unique_ptr<Node>> likes_;
};

/// Changes one scan; returns false, having written nothing, where there is nothing to change.
using ScanPass = std::function<bool(ScanEdit&)>;

/// Returns `graph` with `pass` applied to each scan whose metadata is static, those inside bodies of other operators
/// first. `origin` names the pass in new nodes.
Graph rewrite_scans(const Graph& graph, std::string_view origin, const ScanPass& pass);

/// Whether a graph holds a scan, in bodies of other operators too.
bool has_scan(const Node& node);
bool has_scan(const Graph& graph);

/// `value` with the strides of `meta`: itself if it has them, else a copy.
Value with_layout(Emitter& emitter, Value value, const TensorMeta& meta);

}  // namespace diptych::detail
