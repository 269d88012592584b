#include "diptych/interpreter/reuse.h"

#include <algorithm>
#include <string>

#include "diptych/ops/dispatch_keys.h"
#include "diptych/ops/tags.h"

namespace diptych::detail {
namespace {

bool same_type(const c10::Argument& a, const c10::Argument& b) { return *a.real_type() == *b.real_type(); }

// Whether the variant takes the same arguments, then one tensor to write to.
bool is_out_form(const c10::FunctionSchema& schema, const c10::FunctionSchema& variant) {
  const auto& arguments = schema.arguments();
  const auto& others = variant.arguments();
  if (others.size() != arguments.size() + 1 || !others.back().is_out()) return false;
  return std::equal(arguments.begin(), arguments.end(), others.begin(), same_type);
}

// Generated out= forms compute elsewhere and copy, which would save nothing.
std::optional<c10::OperatorHandle> find_out_form(const Op& op) {
  const auto& name = op.handle().operator_name();
  const std::string overloads[] = {"out", name.overload_name + "_out", "grad_input", "out_mode"};
  for (const auto& overload : overloads) {
    const auto found = c10::Dispatcher::singleton().findSchema({name.name, overload});
    if (found && !found->hasTag(at::Tag::generated) && is_out_form(op.schema(), found->schema())) return found;
  }
  return std::nullopt;
}

bool same_layout(const TensorMeta& a, const TensorMeta& b) {
  const auto equal = [](const Sizes& x, const Sizes& y) {
    return x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin());
  };
  return a.dtype == b.dtype && a.device == b.device && equal(a.sizes, b.sizes) && equal(a.strides, b.strides);
}

// Only operands that are plain `Tensor` arguments can be written to.
bool is_plain_operand(const Node& node, Value value) {
  return std::any_of(node.operands.begin(), node.operands.end(), [&](const Operand& operand) {
    const auto* tensor = std::get_if<Value>(&operand);
    return tensor != nullptr && *tensor == value;
  });
}

bool is_likely_owned(const Graph& graph, Value value) {
  const Node* producer = graph.producer(value);
  return producer != nullptr && !producer->op.is_hop() && !has_tag(producer->op, Tag::kView);
}

std::unique_ptr<Caller> make_reusing_caller(const Node& node, Value operand, OperandTable& table) {
  if (const auto out_form = find_out_form(node.op)) {
    std::vector<Operand> operands(node.operands.begin(), node.operands.end());
    operands.emplace_back(operand);
    if (auto caller = make_typed_caller(*out_form, table, operands, {-1})) return caller;
  }
  const auto* first = std::get_if<Value>(&node.operands[0]);
  const auto in_place = inplace_variant(node.op);
  if (!in_place || first == nullptr || !(*first == operand)) return nullptr;
  return make_typed_caller(in_place->handle(), table, node.operands, {-1});
}

}  // namespace

Value find_reusable_operand(const Graph& graph, const Node& node, const std::vector<Value>& dying) {
  if (node.op.is_hop() || !has_tag(node.op, Tag::kPointwise) || has_tag(node.op, Tag::kRandom)) return {};
  if (node.outputs.size() != 1 || !node.outputs[0]) return {};
  if (!computes_alike_in_place(node.op, graph.meta(node.outputs[0]).dtype)) return {};
  Value chosen;
  for (const Value value : dying) {
    if (!same_layout(graph.meta(value), graph.meta(node.outputs[0])) || !is_plain_operand(node, value)) continue;
    if (!chosen || (is_likely_owned(graph, value) && !is_likely_owned(graph, chosen))) chosen = value;
  }
  return chosen;
}

std::optional<Reuse> make_reuse(const Graph& graph, const Node& node, Value operand, OperandTable& table) {
  Reuse reuse;
  reuse.caller = make_reusing_caller(node, operand, table);
  if (!reuse.caller) return std::nullopt;
  const auto& meta = graph.meta(operand);
  reuse.reference = table.reference(operand);
  reuse.is_static = meta.is_static();
  reuse.sizes = meta.size_hints();
  reuse.strides = meta.stride_hints();
  return reuse;
}

bool may_overwrite(const Reuse& reuse, const at::Tensor& tensor) {
  // The memory behind wrappers (fake, functional, batched) and Python subclasses is not ours to write to.
  auto* impl = tensor.unsafeGetTensorImpl();
  if (!tensor.defined() || tensor.use_count() != 1 || !impl->has_storage()) return false;
  const auto& storage = impl->unsafe_storage();
  // resizable() is false for memory lent by its owner (from_blob, mapped files): the count does not tell who reads it.
  if (storage.use_count() != 1 || !storage.resizable()) return false;
  if (impl->key_set().has_any(kTransformedKeys) || impl->is_conj() || impl->is_neg()) return false;
  if (impl->_is_zerotensor()) return false;  // a gradient that autograd knows to be zero, which has no memory
  // A view of part of a larger storage would keep all of it alive.
  if (storage.nbytes() != impl->numel() * impl->itemsize()) return false;
  if (!reuse.is_static) return impl->is_contiguous_default(c10::MemoryFormat::Contiguous);
  return impl->sizes() == at::IntArrayRef(reuse.sizes) && impl->strides() == at::IntArrayRef(reuse.strides);
}

}  // namespace diptych::detail
