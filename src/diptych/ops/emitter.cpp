#include "diptych/ops/emitter.h"

#include "diptych/base/check.h"
#include "diptych/graph/operand.h"
#include "diptych/graph/recomputation.h"
#include "diptych/ops/infer_metas.h"

namespace diptych::detail {

std::vector<Value> Emitter::call_all(std::string_view name, std::vector<Operand> operands) {
  Node node{Op::find(name), {}, {}, {}, {}, replaced_.provenance, replaced_.grad_enabled};
  // The parts of a node that a checkpoint computes again are computed again too: backends look at the mark.
  if (!is_checkpoint_recomputation(node.provenance)) node.provenance.origin = origin_;
  const auto& arguments = node.op.schema().arguments();
  for (size_t i = operands.size(); i < arguments.size(); ++i) {
    auto operand = default_operand(arguments[i]);
    DIPTYCH_ASSERT(operand.has_value(), "{} was emitted without '{}'", name, arguments[i].name());
    operands.push_back(std::move(*operand));
  }
  for (auto& operand : operands) node.operands.push_back(std::move(operand));
  auto inferred = infer_metas(graph_, node.op, {node.operands.data(), node.operands.size()}, node.grad_enabled);
  node.returns = std::move(inferred.returns);
  const size_t index = graph_.add_node(std::move(node), std::move(inferred.metas));
  const auto& outputs = graph_.nodes()[index].outputs;
  return {outputs.begin(), outputs.end()};
}

Value Emitter::with_strides(Value value, const TensorMeta& wanted) {
  if (meta(value).strides == wanted.strides) return value;
  const Value empty =
      call("aten.empty_strided", {c10::IValue(wanted.size_hints()), c10::IValue(wanted.stride_hints()),
                                  c10::IValue(wanted.dtype), c10::IValue(), c10::IValue(wanted.device)});
  return call("aten.copy", {empty, value});
}

Expr Expr::apply(std::string_view name, std::vector<Operand> rest) const {
  std::vector<Operand> operands{value};
  for (auto& operand : rest) operands.push_back(std::move(operand));
  return {emitter, emitter->call(name, std::move(operands))};
}

Expr Expr::to(at::ScalarType dtype) const {
  return meta().dtype == dtype ? *this : apply("aten._to_copy", {c10::IValue(dtype)});
}

Expr Expr::sum(std::vector<int64_t> dims, bool keepdim) const {
  // ATen reads an empty list as all dimensions.
  if (dims.empty()) return *this;
  return apply("aten.sum.dim_IntList", {c10::IValue(std::move(dims)), c10::IValue(keepdim)});
}

Expr Expr::mean(std::vector<int64_t> dims, bool keepdim) const {
  if (dims.empty()) return *this;
  return apply("aten.mean.dim", {c10::IValue(std::move(dims)), c10::IValue(keepdim)});
}

Expr Expr::view(std::vector<int64_t> sizes) const {
  const bool is_contiguous = meta().strides == contiguous_strides(meta().sizes);
  const Expr base = is_contiguous ? *this : apply("aten.clone", {c10::IValue(at::MemoryFormat::Contiguous)});
  return base.apply("aten.view", {c10::IValue(std::move(sizes))});
}

Operand number(double value) { return WrappedNumber{value, at::kDouble}; }

Expr operator+(Expr left, Expr right) { return left.apply("aten.add.Tensor", {right.value}); }
Expr operator-(Expr left, Expr right) { return left.apply("aten.sub.Tensor", {right.value}); }
Expr operator*(Expr left, Expr right) { return left.apply("aten.mul.Tensor", {right.value}); }
Expr operator/(Expr left, Expr right) { return left.apply("aten.div.Tensor", {right.value}); }
Expr operator+(Expr left, double right) { return left.apply("aten.add.Tensor", {number(right)}); }
Expr operator-(Expr left, double right) { return left.apply("aten.sub.Tensor", {number(right)}); }
Expr operator*(Expr left, double right) { return left.apply("aten.mul.Tensor", {number(right)}); }
Expr operator/(Expr left, double right) { return left.apply("aten.div.Tensor", {number(right)}); }
Expr operator-(double left, Expr right) { return -right + left; }
Expr operator-(Expr operand) { return operand.apply("aten.neg"); }
Expr operator<(Expr left, double right) { return left.apply("aten.lt.Scalar", {c10::IValue(right)}); }
Expr operator<=(Expr left, double right) { return left.apply("aten.le.Scalar", {c10::IValue(right)}); }
Expr operator>(Expr left, double right) { return left.apply("aten.gt.Scalar", {c10::IValue(right)}); }
Expr operator>=(Expr left, double right) { return left.apply("aten.ge.Scalar", {c10::IValue(right)}); }
Expr operator|(Expr left, Expr right) { return left.apply("aten.logical_or", {right.value}); }

Expr where(Expr condition, Expr yes, Expr no) { return condition.apply("aten.where.self", {yes.value, no.value}); }

Expr number_like(Expr like, double value) {
  const c10::IValue none;
  return {like.emitter,
          like.emitter->call("aten.full", {c10::IValue(std::vector<int64_t>{}), c10::IValue(value),
                                           c10::IValue(like.meta().dtype), none, c10::IValue(like.meta().device)})};
}

Expr where(Expr condition, Expr yes, double no) { return where(condition, yes, number_like(yes, no)); }

Expr where(Expr condition, double yes, Expr no) { return where(condition, number_like(no, yes), no); }

Expr Call::tensor(size_t i) const { return {&emitter_, std::get<Value>(operands_[i])}; }

Expr Call::wide(size_t i) const { return tensor(i).to(compute_dtype(tensor(i).meta().dtype)); }

std::optional<Expr> Call::optional_tensor(size_t i) const {
  const auto* value = std::get_if<Value>(&operands_[i]);
  return value != nullptr && *value ? std::optional(tensor(i)) : std::nullopt;
}

const c10::IValue& Call::constant(size_t i) const { return std::get<c10::IValue>(operands_[i]); }
double Call::number(size_t i) const { return constant(i).toScalar().toDouble(); }
int64_t Call::integer(size_t i) const { return constant(i).toInt(); }
bool Call::flag(size_t i) const { return constant(i).isBool() && constant(i).toBool(); }
std::vector<int64_t> Call::integers(size_t i) const { return constant(i).toIntVector(); }
bool Call::mask(size_t i, size_t element) const { return constant(i).toBoolList().get(element); }

at::ScalarType compute_dtype(at::ScalarType dtype) {
  return dtype == at::kHalf || dtype == at::kBFloat16 ? at::kFloat : dtype;
}

}  // namespace diptych::detail
