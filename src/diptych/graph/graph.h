// The IR: a Graph is a value, a straight line of nodes in execution order, whose outputs are numbered Values. No kernel
// is run here; tensors occur only as constants.
#pragma once
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "diptych/base/interned_string.h"
#include "diptych/graph/op.h"
#include "diptych/graph/rematerialization.h"
#include "diptych/graph/size_number.h"
#include "diptych/graph/tensor_meta.h"

namespace diptych {

class Graph;

/// A tensor in a graph, by number; `Value{}` is "none", the undefined tensor.
struct Value {
  int32_t id = -1;
  explicit operator bool() const { return id >= 0; }
  bool operator==(const Value&) const = default;
  bool operator<(const Value& other) const { return id < other.id; }
};
using ValueList = std::vector<Value>;

/// A zero-dimensional tensor made from a C++ number, as in `x * 2.0`: it does not take part in dtype promotion as a
/// tensor would, so a graph keeps it apart from tensors.
struct WrappedNumber {
  at::Scalar number;
  at::ScalarType dtype = at::kDouble;
};

/// One argument of a node, in the order of the operator's schema. The alternatives are:
/// Value: Tensor (or none); ValueList: Tensor[] and Tensor?[]; WrappedNumber: a Tensor from a number;
/// SizeExpr and Sizes: SymInt and SymInt[] that hold a symbol; IValue: every constant (None, ints, floats, bools,
/// strings, lists, Scalar, dtype, layout, device, memory format, generator; the schema tells which); SizeNumber: a
/// float that follows from sizes. Where the schema takes a Tensor, a SizeExpr or SizeNumber is a tensor made from that
/// number.
using Operand = std::variant<Value, ValueList, WrappedNumber, SizeExpr, Sizes, c10::IValue, SizeNumber>;

/// Which side of a joint graph a node was recorded on.
enum class Phase : uint8_t { kForward, kBackward };

/// Where a node comes from.
struct Provenance {
  InternedString scope;   ///< the user's dp::scope, "block3/attn"; empty outside any
  InternedString origin;  ///< the pass that made the node; empty for the trace
  Value grad_of;          ///< for a backward node, the forward value whose gradient it takes part in; none if unknown
  Phase phase = Phase::kForward;
  bool is_superseded = false;  ///< from an earlier backward of the same trace; the current one lacks its effects
  /// The checkpoint regions that the node, or the forward node that it differentiates, was recorded in; empty outside
  /// any. In a backward graph, for a recomputed node, the regions whose recomputation it is part of.
  InternedString region;
  bool own_derivative = false;   ///< from a body whose derivative is not that of these operators
  RegionMarks marks;             ///< what those regions decided; see Note [Checkpoint regions]
  InternedString residual_name;  ///< name by which policies save its values; several are separated by commas
};

/// An operator applied to operands.
struct Node {
  Op op;
  c10::SmallVector<Operand, 4> operands;
  /// One per tensor that the node returns, lists flattened; none if the operator returned an undefined tensor.
  c10::SmallVector<Value, 2> outputs;
  /// One per return of the schema: -1 for a Tensor, n for a Tensor[] of n, -2 for a return that is not a tensor
  /// (dropped).
  c10::SmallVector<int32_t, 2> returns;
  std::vector<std::shared_ptr<const Graph>> subgraphs;
  Provenance provenance;
  /// Whether gradients were recorded when the node ran; false inside the user's no_grad regions. It matters when a
  /// graph is differentiated again, and passes never merge nodes across it.
  bool grad_enabled = true;
};

/// What is known about a value.
struct ValueInfo {
  TensorMeta meta;
  int32_t node = -1;   ///< index of the producing node; -1 for inputs and constants
  int32_t index = -1;  ///< which output of the node, which input, or which constant
  enum class Kind : uint8_t { kInput, kConstant, kNode } kind = Kind::kNode;
};

/// What an input or output slot is for. The order of slots is docs/spec.md, C4.
enum class SlotKind : uint8_t { kArgument, kFreeVariable, kOutput, kMutated, kResidual, kTangent, kGradient };

/// The name of one input or output of a graph; passes never reorder slots.
struct Slot {
  SlotKind kind = SlotKind::kArgument;
  std::string path;  ///< "params.blocks.3.attn.weight"
};

/// A forward, backward or joint graph. Value-like: a copy is independent, and costs nothing until one of the two is
/// changed (subgraphs stay shared, since they never change). A moved-from graph may only be assigned to or destroyed.
/// Threads: const members may be called from several threads.
class Graph {
 public:
  explicit Graph(std::string name = "graph") : name_(std::move(name)), content_(std::make_shared<Content>()) {}

  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  const std::vector<Value>& inputs() const { return content_->inputs; }
  const std::vector<Slot>& input_slots() const { return content_->input_slots; }
  const std::vector<Value>& outputs() const { return content_->outputs; }
  const std::vector<Slot>& output_slots() const { return content_->output_slots; }
  const std::vector<Node>& nodes() const { return content_->nodes; }
  const std::vector<at::Tensor>& constants() const { return content_->constants; }
  size_t num_values() const { return content_->values.size(); }
  const ValueInfo& info(Value value) const;
  const TensorMeta& meta(Value value) const { return info(value).meta; }
  TensorMeta& mutable_meta(Value value);
  /// Corrects Node::grad_enabled of the node that makes `value`. Requires: a node makes `value`.
  void set_grad_enabled(Value value, bool enabled);
  /// Corrects what is known about where a node comes from. Requires: an index of nodes().
  void set_provenance(size_t node, const Provenance& provenance);
  /// The node that makes `value`, or null for inputs and constants.
  const Node* producer(Value value) const;

  /// Reserves memory for about `nodes` nodes, so that adding them does not move the nodes that are there.
  void reserve(size_t nodes);
  Value add_input(TensorMeta meta, Slot slot);
  /// Puts the inputs, with their slots, into the order of `order` (a permutation of input positions).
  void order_inputs(const std::vector<size_t>& order);
  /// A lazy conjugate or negative becomes what it stands for: who reads constants reads their memory.
  Value add_constant(at::Tensor tensor);
  /// Appends a node and makes one value per entry of `metas`, in order; an empty optional is an undefined output.
  /// Requires: operands refer to earlier values. Returns the node's index.
  size_t add_node(Node node, std::vector<std::optional<TensorMeta>> metas);
  void set_outputs(std::vector<Value> outputs, std::vector<Slot> slots);
  void rename_slots(std::vector<Slot> inputs, std::vector<Slot> outputs);

  /// Readable, typed text that parse() (graph/parse.h) reads back.
  std::string code() const;
  /// One row per node in aligned columns, for a terminal.
  std::string table() const;

 private:
  struct Content {
    std::vector<Value> inputs;
    std::vector<Slot> input_slots;
    std::vector<Value> outputs;
    std::vector<Slot> output_slots;
    std::vector<Node> nodes;
    std::vector<ValueInfo> values;
    std::vector<at::Tensor> constants;
  };
  Content& change();

  std::string name_;
  std::shared_ptr<Content> content_;  // shared with copies until changed
};

/// Calls `visit(Value)` for each tensor operand of `node` in order, elements of lists included; undefined ones (`none`)
/// are skipped.
template <class Visit>
void for_each_operand_value(const Node& node, Visit&& visit) {
  for (const auto& operand : node.operands) {
    if (const auto* value = std::get_if<Value>(&operand)) {
      if (*value) visit(*value);
    } else if (const auto* list = std::get_if<ValueList>(&operand)) {
      for (const Value value : *list) {
        if (value) visit(value);
      }
    }
  }
}

}  // namespace diptych
