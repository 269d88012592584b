// Writing the nodes of a decomposition as arithmetic: `g * (1.0 - y * y)` appends the nodes that compute it.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Appends nodes to a graph in place of one other node, whose scope, phase and grad mode they take over.
class Emitter {
 public:
  /// `origin` names the pass that the nodes come from.
  Emitter(Graph& graph, const Node& replaced, InternedString origin = InternedString("decompose"))
      : graph_(graph), replaced_(replaced), origin_(origin) {}
  /// Appends `name` applied to `operands`; arguments left off at the end take the schema's defaults.
  /// Errors: InternalError if an argument without a default is left off.
  std::vector<Value> call_all(std::string_view name, std::vector<Operand> operands);
  /// The same for an operator with one output.
  Value call(std::string_view name, std::vector<Operand> operands) { return call_all(name, std::move(operands))[0]; }
  /// Returns `value` with the strides of `wanted`, as the replaced kernel would have given it; copies where they
  /// differ.
  Value with_strides(Value value, const TensorMeta& wanted);
  const TensorMeta& meta(Value value) const { return graph_.meta(value); }

 private:
  Graph& graph_;
  const Node& replaced_;
  InternedString origin_;
};

/// A tensor in the graph that an emitter writes to.
struct Expr {
  Emitter* emitter;
  Value value;

  const TensorMeta& meta() const { return emitter->meta(value); }
  int64_t rank() const { return static_cast<int64_t>(meta().sizes.size()); }
  int64_t size(int64_t dim) const { return meta().sizes[dim < 0 ? dim + rank() : dim].hint(); }
  /// Applies an operator whose first operand is this tensor.
  Expr apply(std::string_view name, std::vector<Operand> rest = {}) const;
  Expr to(at::ScalarType dtype) const;  ///< this tensor if it has the dtype already
  Expr sum(std::vector<int64_t> dims, bool keepdim) const;
  Expr mean(std::vector<int64_t> dims, bool keepdim) const;
  Expr view(std::vector<int64_t> sizes) const;  ///< copies first where a view would not be legal
};

/// A float operand that does not take part in dtype promotion.
Operand number(double value);

Expr operator+(Expr left, Expr right);
Expr operator-(Expr left, Expr right);
Expr operator*(Expr left, Expr right);
Expr operator/(Expr left, Expr right);
Expr operator+(Expr left, double right);
Expr operator-(Expr left, double right);
Expr operator*(Expr left, double right);
Expr operator/(Expr left, double right);
Expr operator-(double left, Expr right);
Expr operator-(Expr operand);
/// Comparisons with a number make bool tensors.
Expr operator<(Expr left, double right);
Expr operator<=(Expr left, double right);
Expr operator>(Expr left, double right);
Expr operator>=(Expr left, double right);
Expr operator|(Expr left, Expr right);
/// A tensor without dims, of the dtype and on the device of another, whose values it does not read: one made from the
/// other's sizes would have to wait for it.
Expr number_like(Expr like, double value);
Expr where(Expr condition, Expr yes, Expr no);
Expr where(Expr condition, Expr yes, double no);
Expr where(Expr condition, double yes, Expr no);

/// The node that a decomposition replaces, with operands in terms of the new graph.
class Call {
 public:
  Call(Emitter& emitter, const Node& node, c10::ArrayRef<Operand> operands)
      : emitter_(emitter), node_(node), operands_(operands) {}

  const Node& node() const { return node_; }
  Expr tensor(size_t i) const;
  Expr wide(size_t i) const;  ///< a tensor in the dtype that kernels compute in: f32 for the half types
  /// Returns one result, cast to the dtype of the first operand.
  std::vector<Value> result(Expr value) const { return {value.to(tensor(0).meta().dtype).value}; }
  std::optional<Expr> optional_tensor(size_t i) const;  ///< nullopt if the operand is none
  double number(size_t i) const;
  int64_t integer(size_t i) const;
  bool flag(size_t i) const;
  std::vector<int64_t> integers(size_t i) const;
  bool mask(size_t i, size_t element) const;  ///< of a bool[]
  const c10::IValue& constant(size_t i) const;
  Expr expr(Value value) const { return {&emitter_, value}; }
  Emitter& emitter() const { return emitter_; }

 private:
  Emitter& emitter_;
  const Node& node_;
  c10::ArrayRef<Operand> operands_;
};

/// Returns the dtype that kernels compute in: f32 for the half types, otherwise `dtype` itself.
at::ScalarType compute_dtype(at::ScalarType dtype);

}  // namespace diptych::detail
