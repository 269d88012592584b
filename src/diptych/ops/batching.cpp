#include "diptych/ops/batching.h"

#include <ATen/TensorUtils.h>

#include <unordered_map>

#include "diptych/base/error.h"
#include "diptych/graph/operand.h"
#include "diptych/ops/tags.h"

namespace diptych::detail {
using Values = std::vector<Value>;

BatchedCall::BatchedCall(Emitter& emitter, const Graph& body, const Node& node, const FindBatched& find, int64_t length)
    : emitter_(emitter), body_(body), node_(node), length_(length) {
  const auto map = [&](Value value) { return value ? find(value) : BatchedValue{}; };
  for (const auto& operand : node.operands) {
    operands_.push_back(operand);
    stacked_.push_back(false);
    stacked_elements_.emplace_back();
    if (const auto* value = std::get_if<Value>(&operand)) {
      const BatchedValue batched = map(*value);
      operands_.back() = batched.value;
      stacked_.back() = batched.is_stacked;
    } else if (const auto* list = std::get_if<ValueList>(&operand)) {
      ValueList values;
      for (const Value value : *list) {
        const BatchedValue batched = map(value);
        values.push_back(batched.value);
        stacked_elements_.back().push_back(batched.is_stacked);
      }
      operands_.back() = std::move(values);
    }
  }
}

bool BatchedCall::is_tensor(size_t i) const {
  const auto* value = std::get_if<Value>(&operands_[i]);
  return value != nullptr && *value;
}

bool BatchedCall::is_list_stacked(size_t i) const {
  const auto& elements = stacked_elements_[i];
  return !elements.empty() && std::find(elements.begin(), elements.end(), false) == elements.end();
}

bool BatchedCall::any_list_stacked() const {
  return std::any_of(stacked_elements_.begin(), stacked_elements_.end(), [](const auto& elements) {
    return std::find(elements.begin(), elements.end(), true) != elements.end();
  });
}

std::vector<int64_t> BatchedCall::stacked_sizes(size_t result_index) const {
  auto sizes = result(result_index).size_hints();
  sizes.insert(sizes.begin(), length_);
  return sizes;
}

Values BatchedCall::emit(std::vector<Operand> operands) const {
  return emitter_.call_all(node_.op.name(), std::move(operands));
}

Expr reshaped(Expr expr, std::vector<int64_t> sizes) {
  const auto old_sizes = expr.meta().size_hints();
  if (old_sizes == sizes) return expr;
  const auto strides = at::detail::computeStride(old_sizes, expr.meta().stride_hints(), sizes);
  const Expr base = strides ? expr : expr.apply("aten.clone", {c10::IValue(at::MemoryFormat::Contiguous)});
  return base.apply("aten.view", {c10::IValue(std::move(sizes))});
}

namespace {
using Result = std::optional<Values>;

// Elementwise ---------------------------------------------------------------------------------------------------------

// Operands that an elementwise operator may have besides elements.
bool keeps_meaning(const BatchedCall& call) {
  const auto& arguments = call.node().op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    // A mean's gradient divides by the number of elements.
    const auto* constant = call.constant(i);
    if (arguments[i].name() == "reduction" && (constant == nullptr || constant->toInt() != 0)) return false;
    // Some operators take a tensor for one number, and a stacked one would be many.
    if (arguments[i].name() == "value" && call.is_stacked(i)) return false;
    const auto type = operand_type(arguments[i]);
    if (type.kind != OperandKind::kMemoryFormat || constant == nullptr || constant->isNone()) continue;
    const auto format = constant->toMemoryFormat();
    if (format != at::MemoryFormat::Contiguous && format != at::MemoryFormat::Preserve) return false;
  }
  return !call.any_list_stacked();
}

// A tensor without dimensions does not decide the dtype of the result; stacked, it would.
bool keeps_promotion(const BatchedCall& call) {
  bool has_scalar_stack = false;
  bool same = true;
  std::optional<at::ScalarType> dtype;
  for (size_t i = 0; i < call.operands().size(); ++i) {
    if (!call.is_tensor(i)) continue;
    has_scalar_stack = has_scalar_stack || (call.is_stacked(i) && call.step_rank(i) == 0);
    same = same && (!dtype || *dtype == call.step(i).dtype);
    dtype = call.step(i).dtype;
  }
  return same || !has_scalar_stack;
}

// Dimensions are matched from the last. A stacked operand with fewer dimensions gets ones behind the steps.
Result batch_elementwise(const BatchedCall& call) {
  if (!keeps_meaning(call) || !keeps_promotion(call)) return std::nullopt;
  const auto rank = static_cast<int64_t>(call.result().sizes.size());
  auto operands = call.operands();
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!call.is_tensor(i) || !call.is_stacked(i)) continue;
    if (call.step_rank(i) > rank) return std::nullopt;
    Expr operand = call.tensor(i);
    for (int64_t k = call.step_rank(i); k < rank; ++k) operand = operand.apply("aten.unsqueeze", {c10::IValue(1)});
    operands[i] = operand.value;
  }
  return call.emit(std::move(operands));
}

// oneDNN's kernels take no operands of different sizes, where ATen's own kernels expand them.
Result batch_of_like_sizes(const BatchedCall& call) {
  for (size_t i = 0; i < call.operands().size(); ++i) {
    if (call.is_tensor(i) && !call.is_stacked(i)) return std::nullopt;
  }
  return batch_elementwise(call);
}

// Views that name sizes -----------------------------------------------------------------------------------------------

Result batch_reshape(const BatchedCall& call) {
  return call.is_stacked(0) ? Result(Values{reshaped(call.tensor(0), call.stacked_sizes()).value}) : std::nullopt;
}

Result batch_expand(const BatchedCall& call) {
  if (!call.is_stacked(0)) return std::nullopt;
  const auto sizes = call.stacked_sizes();
  Expr operand = call.tensor(0);
  for (auto k = operand.rank(); k < static_cast<int64_t>(sizes.size()); ++k) {
    operand = operand.apply("aten.unsqueeze", {c10::IValue(1)});
  }
  return Values{operand.apply("aten.expand", {c10::IValue(sizes)}).value};
}

Result batch_t(const BatchedCall& call) {
  if (!call.is_stacked(0)) return std::nullopt;
  if (call.step_rank(0) < 2) return Values{call.tensor(0).apply("aten.alias").value};
  return Values{call.tensor(0).apply("aten.transpose.int", {c10::IValue(1), c10::IValue(2)}).value};
}

Result batch_permute(const BatchedCall& call) {
  if (!call.is_stacked(0)) return std::nullopt;
  std::vector<int64_t> dims{0};
  for (const int64_t dim : call.constant(1)->toIntVector()) {
    dims.push_back(1 + (dim < 0 ? dim + call.step_rank(0) : dim));
  }
  return Values{call.tensor(0).apply("aten.permute", {c10::IValue(dims)}).value};
}

// Reductions of everything --------------------------------------------------------------------------------------------

std::vector<int64_t> step_dims(const BatchedCall& call) {
  std::vector<int64_t> dims;
  for (int64_t i = 1; i <= call.step_rank(0); ++i) dims.push_back(i);
  return dims;
}

template <const char* kName>
Result batch_full_reduction(const BatchedCall& call) {
  if (!call.is_stacked(0) || call.step_rank(0) == 0) return std::nullopt;
  return Values{
      call.tensor(0).apply(kName, {c10::IValue(step_dims(call)), c10::IValue(false), call.operands()[1]}).value};
}
constexpr char kSum[] = "aten.sum.dim_IntList";
constexpr char kMean[] = "aten.mean.dim";

// Operators with dimensions among their operands ----------------------------------------------------------------------

/// Where an operator names dimensions; apart from these it works the same with one more dimension in front.
struct DimRow {
  std::string_view name;
  std::vector<size_t> dims;       ///< operands that are a dimension, or a list of them
  bool takes_scalars = false;     ///< has the same meaning for a step without dimensions
  std::vector<size_t> same = {};  ///< tensors that may be the same in every step
  bool empty_is_none = false;     ///< an empty list means no dimensions, and not all of them
};

const std::vector<DimRow>& dim_rows() {
  static const auto* const rows = new std::vector<DimRow>{
      {"aten.alias", {}, true},
      {"aten.detach", {}, true},
      {"aten.unsqueeze", {1}, true},
      {"aten.squeeze.dim", {1}},
      {"aten.squeeze.dims", {1}, false, {}, true},
      {"aten.transpose.int", {1, 2}},
      {"aten.select.int", {1}},
      {"aten.slice.Tensor", {1}},
      {"aten.diagonal", {2, 3}},
      {"aten.unfold", {1}},
      {"aten.split.Tensor", {2}},
      {"aten.split_with_sizes", {2}},
      {"aten.unbind.int", {1}},
      {"aten.flip", {1}, false, {}, true},
      {"aten.sum.dim_IntList", {1}},
      {"aten.mean.dim", {1}},
      {"aten.amax", {1}},
      {"aten.amin", {1}},
      {"aten.logsumexp", {1}},
      {"aten.var.correction", {1}},
      {"aten.std.correction", {1}},
      {"aten.prod.dim_int", {1}},
      {"aten.any.dim", {1}},
      {"aten.all.dim", {1}},
      {"aten.max.dim", {1}},
      {"aten.min.dim", {1}},
      {"aten.argmax", {1}},
      {"aten.argmin", {1}},
      {"aten.cumsum", {1}},
      {"aten.cumprod", {1}},
      {"aten._softmax", {1}},
      {"aten._log_softmax", {1}},
      {"aten._softmax_backward_data", {2}},
      {"aten._log_softmax_backward_data", {2}},
      {"aten.gather", {1}},
      {"aten.index_select", {1}, false, {2}},
      {"aten.cat", {1}},
      {"aten.stack", {1}},
      // These operators work on the last dimensions, for every index of the ones before.
      {"aten.tril", {}},
      {"aten.triu", {}},
      {"aten.constant_pad_nd", {}},
      {"aten.native_layer_norm", {}, false, {2, 3}},
      {"aten.embedding", {}, true, {0}},
  };
  return *rows;
}

// Negative dimensions count from the last. A missing list means all dimensions, as an empty one does in most rows.
std::optional<c10::IValue> shifted(const c10::IValue& dims, int64_t rank, bool empty_is_none) {
  const auto shift = [](int64_t dim) { return dim < 0 ? dim : dim + 1; };
  if (dims.isInt()) return c10::IValue(shift(dims.toInt()));
  if (!dims.isNone() && !dims.isIntList()) return std::nullopt;
  std::vector<int64_t> list;
  if (dims.isIntList()) {
    for (const int64_t dim : dims.toIntVector()) list.push_back(shift(dim));
  }
  if (!list.empty() || (dims.isIntList() && empty_is_none)) return c10::IValue(list);
  for (int64_t i = 1; i <= rank; ++i) list.push_back(i);
  return c10::IValue(list);
}

bool is_expected_stacked(const BatchedCall& call, const DimRow& row, size_t i) {
  const bool may_be_same = std::find(row.same.begin(), row.same.end(), i) != row.same.end();
  if (const auto* list = std::get_if<ValueList>(&call.operands()[i])) {
    return list->empty() || call.is_list_stacked(i);
  }
  return !call.is_tensor(i) || call.is_stacked(i) != may_be_same;
}

Result batch_with_dims(const BatchedCall& call, const DimRow& row) {
  int64_t rank = 1;
  for (size_t i = 0; i < call.operands().size(); ++i) {
    if (!is_expected_stacked(call, row, i)) return std::nullopt;
    if (!call.is_tensor(i) || !call.is_stacked(i)) continue;
    rank = call.step_rank(i);
    if (rank == 0 && !row.takes_scalars) return std::nullopt;
  }
  auto operands = call.operands();
  for (const size_t i : row.dims) {
    const auto* dims = call.constant(i);
    // Without a dimension argmax looks at all elements; it has no list of dimensions to name them.
    const bool is_list = operand_type(call.node().op.schema().arguments()[i]).kind == OperandKind::kInts;
    if (dims == nullptr || (dims->isNone() && !is_list)) return std::nullopt;
    auto moved = shifted(*dims, rank, row.empty_is_none);
    if (!moved) return std::nullopt;
    operands[i] = std::move(*moved);
  }
  return call.emit(std::move(operands));
}

// Look-up -------------------------------------------------------------------------------------------------------------

struct BatchRow {
  std::string_view name;
  BatchingRule rule;
};

constexpr BatchRow kBatchRows[] = {
    {"aten.gelu_backward", batch_of_like_sizes},
    {"aten.clone", batch_elementwise},
    {"aten.zeros_like", batch_elementwise},
    {"aten.ones_like", batch_elementwise},
    {"aten.full_like", batch_elementwise},
    {"aten.view", batch_reshape},
    {"aten._unsafe_view", batch_reshape},
    {"aten._reshape_alias", batch_reshape},
    {"aten.reshape", batch_reshape},
    {"aten.squeeze", batch_reshape},
    {"aten.expand", batch_expand},
    {"aten.t", batch_t},
    {"aten.permute", batch_permute},
    {"aten.sum", batch_full_reduction<kSum>},
    {"aten.mean", batch_full_reduction<kMean>},
};

template <class Found>
using ByOperator = std::unordered_map<c10::OperatorHandle, Found>;

BatchingRule find_rule(const Op& op) {
  static const auto* const rules = [] {
    auto* const made = new ByOperator<BatchingRule>;
    for (const BatchRow& row : kBatchRows) made->emplace(Op::find(row.name).handle(), row.rule);
    return made;
  }();
  const auto found = rules->find(op.handle());
  if (found != rules->end()) return found->second;
  if (const auto rule = detail::find_product_rule(op)) return rule;
  return has_tag(op, Tag::kPointwise) ? batch_elementwise : nullptr;
}

const DimRow* find_dim_row(const Op& op) {
  static const auto* const rows = [] {
    auto* const made = new ByOperator<const DimRow*>;
    for (const DimRow& row : dim_rows()) made->emplace(Op::find(row.name).handle(), &row);
    return made;
  }();
  const auto found = rows->find(op.handle());
  return found == rows->end() ? nullptr : found->second;
}

bool is_as_expected(const BatchedCall& call, const Values& values) {
  if (values.size() != call.node().outputs.size()) return false;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!call.node().outputs[i]) continue;
    const auto& meta = values[i] ? call.emitter().meta(values[i]) : TensorMeta{};
    if (!values[i] || meta.dtype != call.result(i).dtype || meta.size_hints() != call.stacked_sizes(i)) return false;
  }
  return true;
}

}  // namespace

bool is_movable(const Graph& body, const Node& node) {
  bool movable = !has_effect(node);
  const auto check = [&](Value value) { movable = movable && (!value || body.meta(value).is_static()); };
  for_each_operand_value(node, check);
  for (const Value output : node.outputs) check(output);
  for (const auto& operand : node.operands) {
    movable = movable && !std::holds_alternative<SizeExpr>(operand) && !std::holds_alternative<Sizes>(operand) &&
              !std::holds_alternative<SizeNumber>(operand);
  }
  return movable;
}

std::optional<Values> batch_node(Emitter& emitter, const Graph& body, const Node& node, const FindBatched& find,
                                 int64_t length) {
  if (node.op.is_hop()) return std::nullopt;
  const BatchedCall call(emitter, body, node, find, length);
  auto result = [&]() -> Result {
    if (const DimRow* row = find_dim_row(node.op)) return batch_with_dims(call, *row);
    const BatchingRule rule = find_rule(node.op);
    return rule == nullptr ? std::nullopt : rule(call);
  }();
  return result && is_as_expected(call, *result) ? result : std::nullopt;
}

bool can_batch(const Graph& body, const Node& node, const std::function<bool(Value)>& is_stacked, int64_t length) {
  Graph scratch("scratch");
  Emitter emitter(scratch, node);
  std::unordered_map<int32_t, BatchedValue> made;
  const auto find = [&](Value value) {
    const auto [entry, is_new] = made.try_emplace(value.id);
    if (!is_new) return entry->second;
    TensorMeta meta = body.meta(value);
    const bool stacked = is_stacked(value);
    if (stacked) {
      meta.sizes.insert(meta.sizes.begin(), SizeExpr(length));
      meta.strides = contiguous_strides(meta.sizes);
    }
    entry->second = {scratch.add_input(meta, {SlotKind::kArgument, "x"}), stacked};
    return entry->second;
  };
  try {
    return batch_node(emitter, body, node, find, length).has_value();
  } catch (const c10::Error&) {
    return false;  // the operator does not take one more dimension
  }
}

}  // namespace diptych::detail
