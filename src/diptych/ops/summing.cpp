#include "diptych/ops/summing.h"

#include <unordered_map>

#include "diptych/base/check.h"
#include "diptych/graph/operand.h"
#include "diptych/ops/tags.h"

namespace diptych::detail {
namespace {

/// Appends the sum over all steps of a node's result. `find_sum` is asked only by rules of sums.
using Emit = Value (*)(const BatchedCall&, const FindSum& find_sum);
using Fits = bool (*)(const BatchedCall&);

Value map_sum(const BatchedCall& call, const FindSum& find_sum, size_t operand) {
  return find_sum(std::get<Value>(call.node().operands[operand]));
}

// Sums from batched values --------------------------------------------------------------------------------------------

bool both_stacked(const BatchedCall& call) { return call.is_stacked(0) && call.is_stacked(1); }

// Left matrices side by side, right matrices one below the other: sum of a[t] b[t] = [a[0] a[1] ...] [b[0]; b[1]; ...].
Value sum_mm(const BatchedCall& call, const FindSum&) {
  const Expr left = call.tensor(0).apply("aten.permute", {c10::IValue(std::vector<int64_t>{1, 0, 2})});
  const Expr right = call.tensor(1);
  const int64_t inner = left.size(1) * left.size(2);
  return reshaped(left, {left.size(0), inner}).apply("aten.mm", {reshaped(right, {inner, right.size(2)}).value}).value;
}

Value sum_bmm(const BatchedCall& call, const FindSum&) {
  const Expr left = call.tensor(0).apply("aten.permute", {c10::IValue(std::vector<int64_t>{1, 2, 0, 3})});
  const Expr right = call.tensor(1).apply("aten.permute", {c10::IValue(std::vector<int64_t>{1, 0, 2, 3})});
  const int64_t inner = left.size(2) * left.size(3);
  return reshaped(left, {left.size(0), left.size(1), inner})
      .apply("aten.bmm", {reshaped(right, {right.size(0), inner, right.size(3)}).value})
      .value;
}

// The steps are one more dimension to sum over.
Value sum_dims(const BatchedCall& call, const FindSum&) {
  std::vector<int64_t> dims{0};
  const auto* const given = call.constant(1);
  const int64_t rank = call.step_rank(0);
  if (given->isIntList()) {
    for (const int64_t dim : given->toIntVector()) dims.push_back(1 + (dim < 0 ? dim + rank : dim));
  }
  const bool all = dims.size() == 1;
  for (int64_t i = 1; all && i <= rank; ++i) dims.push_back(i);
  const Expr sum = call.tensor(0).apply("aten.sum.dim_IntList",
                                        {c10::IValue(dims), c10::IValue(false), c10::IValue(call.result().dtype)});
  return reshaped(sum, call.result().size_hints()).value;
}

Value sum_all(const BatchedCall& call, const FindSum&) {
  return call.tensor(0).apply("aten.sum", {c10::IValue(call.result().dtype)}).value;
}

bool first_stacked(const BatchedCall& call) { return call.is_stacked(0); }

// The operator adds up the rows with equal indices, for indices of any number of dimensions.
Value sum_embedding_gradients(const BatchedCall& call, const FindSum&) { return call.emit(call.operands())[0]; }

bool counts_no_indices(const BatchedCall& call) {
  const auto* const scales = call.constant(4);
  return both_stacked(call) && scales != nullptr && !scales->toBool();
}

// Sums from sums ------------------------------------------------------------------------------------------------------

bool is_always(const BatchedCall&) { return true; }

Value view_sum(const BatchedCall& call, const FindSum& find_sum) {
  const Expr sum{&call.emitter(), map_sum(call, find_sum, 0)};
  return reshaped(sum, call.result().size_hints()).value;
}

Value apply_to_sum(const BatchedCall& call, const FindSum& find_sum) {
  auto operands = call.operands();
  operands[0] = map_sum(call, find_sum, 0);
  return call.emit(std::move(operands))[0];
}

Value apply_to_sums(const BatchedCall& call, const FindSum& find_sum) {
  auto operands = call.operands();
  for (const size_t i : {0, 1}) operands[i] = map_sum(call, find_sum, i);
  return call.emit(std::move(operands))[0];
}

// An operand that is broadcast would count several times.
bool same_sizes(const BatchedCall& call) {
  return call.is_tensor(0) && call.is_tensor(1) && call.step(0).sizes == call.step(1).sizes &&
         call.step(0).dtype == call.result().dtype && call.step(1).dtype == call.result().dtype;
}

bool keeps_dtype(const BatchedCall& call) {
  return call.step(0).dtype == call.result().dtype && !std::holds_alternative<Value>(call.operands()[1]);
}

struct SumRow {
  std::string_view name;
  SumRule rule;
  Fits fits;
  Emit emit;
};

constexpr SumRow kSumRows[] = {
    {"aten.mm", SumRule::kOfBatched, both_stacked, sum_mm},
    {"aten.bmm", SumRule::kOfBatched, both_stacked, sum_bmm},
    {"aten.sum.dim_IntList", SumRule::kOfBatched, first_stacked, sum_dims},
    {"aten.sum", SumRule::kOfBatched, first_stacked, sum_all},
    {"aten.embedding_dense_backward", SumRule::kOfBatched, counts_no_indices, sum_embedding_gradients},
    {"aten.view", SumRule::kOfSums, is_always, view_sum},
    {"aten._unsafe_view", SumRule::kOfSums, is_always, view_sum},
    {"aten.squeeze", SumRule::kOfSums, is_always, view_sum},
    {"aten.squeeze.dim", SumRule::kOfSums, is_always, view_sum},
    {"aten.squeeze.dims", SumRule::kOfSums, is_always, view_sum},
    {"aten.unsqueeze", SumRule::kOfSums, is_always, view_sum},
    {"aten.clone", SumRule::kOfSums, is_always, view_sum},
    {"aten.t", SumRule::kOfSums, is_always, apply_to_sum},
    {"aten.transpose.int", SumRule::kOfSums, is_always, apply_to_sum},
    {"aten.permute", SumRule::kOfSums, is_always, apply_to_sum},
    {"aten.neg", SumRule::kOfSums, is_always, apply_to_sum},
    {"aten.mul.Tensor", SumRule::kOfSums, keeps_dtype, apply_to_sum},  // by a number
    {"aten.mul.Scalar", SumRule::kOfSums, keeps_dtype, apply_to_sum},
    {"aten.add.Tensor", SumRule::kOfSums, same_sizes, apply_to_sums},
    {"aten.sub.Tensor", SumRule::kOfSums, same_sizes, apply_to_sums},
};

const SumRow* find_row(const Op& op) {
  static const auto* const rows = [] {
    auto* const made = new std::unordered_map<c10::OperatorHandle, const SumRow*>;
    for (const SumRow& row : kSumRows) made->emplace(Op::find(row.name).handle(), &row);
    return made;
  }();
  if (op.is_hop()) return nullptr;
  const auto found = rows->find(op.handle());
  return found == rows->end() ? nullptr : found->second;
}

}  // namespace

SumRule sum_rule(const Graph& body, const Node& node, const std::function<bool(Value)>& is_stacked) {
  const SumRow* const row = find_row(node.op);
  if (row == nullptr || node.outputs.size() != 1 || !node.outputs[0]) return SumRule::kNone;
  Graph scratch;
  Emitter emitter(scratch, node);
  const BatchedCall call(
      emitter, body, node,
      [&](Value value) {
        return BatchedValue{value, is_stacked(value)};
      },
      1);
  return row->fits(call) ? row->rule : SumRule::kNone;
}

Value sum_steps(Emitter& emitter, const Graph& body, const Node& node, const FindBatched& find, const FindSum& find_sum,
                int64_t length) {
  const SumRow* const row = find_row(node.op);
  DIPTYCH_ASSERT(row != nullptr, "{} has no rule for its sum over steps", node.op.name());
  // A rule for sums does not use the operands themselves, so these need not exist as stacks.
  const bool of_sums = row->rule == SumRule::kOfSums;
  const BatchedCall call(emitter, body, node, of_sums ? [](Value) { return BatchedValue{}; } : find, length);
  return row->emit(call, find_sum);
}

Value sum_steps(Emitter& emitter, BatchedValue value, const TensorMeta& step, int64_t length) {
  const Expr expr{&emitter, value.value};
  if (!value.is_stacked) return expr.apply("aten.mul.Scalar", {c10::IValue(length)}).value;
  return expr
      .apply("aten.sum.dim_IntList",
             {c10::IValue(std::vector<int64_t>{0}), c10::IValue(false), c10::IValue(step.dtype)})
      .value;
}

}  // namespace diptych::detail
