// Matrix products and convolutions of many steps: the rows of all steps together, times the operand that is the same in
// every step.
#include <unordered_map>

#include "diptych/ops/batching.h"

namespace diptych::detail {
namespace {

using Values = std::vector<Value>;
using Result = std::optional<Values>;

// [steps, rows, ...] as [steps * rows, ...].
Expr steps_in_rows(Expr stack) {
  std::vector<int64_t> sizes{stack.size(0) * stack.size(1)};
  for (int64_t i = 2; i < stack.rank(); ++i) sizes.push_back(stack.size(i));
  return reshaped(stack, std::move(sizes));
}

Result back_in_steps(const BatchedCall& call, Value rows) {
  return Values{reshaped({&call.emitter(), rows}, call.stacked_sizes()).value};
}

Result batch_mm(const BatchedCall& call) {
  if (!call.is_stacked(0)) return std::nullopt;  // the product would come out with the steps in the middle
  if (call.is_stacked(1)) return Values{call.tensor(0).apply("aten.bmm", {call.tensor(1).value}).value};
  return back_in_steps(call, steps_in_rows(call.tensor(0)).apply("aten.mm", {call.tensor(1).value}).value);
}

bool is_one(const c10::IValue* factor) { return factor != nullptr && factor->toScalar().toDouble() == 1; }

// A bias of one row is an operand of the product; any other bias is added to it.
Result batch_addmm(const BatchedCall& call) {
  if (!call.is_stacked(1) || call.is_stacked(2) || !is_one(call.constant(3)) || !is_one(call.constant(4))) {
    return std::nullopt;
  }
  const Expr rows = steps_in_rows(call.tensor(1));
  if (!call.is_stacked(0) && call.step_rank(0) == 1) {
    return back_in_steps(call, call.tensor(0).apply("aten.addmm", {rows.value, call.tensor(2).value}).value);
  }
  const Expr product{&call.emitter(), rows.apply("aten.mm", {call.tensor(2).value}).value};
  Expr bias = call.tensor(0);
  if (call.is_stacked(0)) {
    for (auto k = call.step_rank(0); k < 2; ++k) bias = bias.apply("aten.unsqueeze", {c10::IValue(1)});
  }
  return Values{(reshaped(product, call.stacked_sizes()) + bias).value};
}

Result batch_mv(const BatchedCall& call) {
  if (call.is_stacked(0) || !call.is_stacked(1)) return std::nullopt;
  const Expr transposed = call.tensor(0).apply("aten.t");
  return Values{call.tensor(1).apply("aten.mm", {transposed.value}).value};
}

Result batch_bmm(const BatchedCall& call) {
  if (!call.is_stacked(0) || !call.is_stacked(1)) return std::nullopt;
  return back_in_steps(call,
                       steps_in_rows(call.tensor(0)).apply("aten.bmm", {steps_in_rows(call.tensor(1)).value}).value);
}

Result batch_convolution(const BatchedCall& call) {
  const auto is_free = [&](size_t i) { return !call.is_tensor(i) || !call.is_stacked(i); };
  const bool has_batch = call.step_rank(0) == call.step_rank(1);
  if (!call.is_stacked(0) || !is_free(1) || !is_free(2) || !has_batch) return std::nullopt;
  auto operands = call.operands();
  operands[0] = steps_in_rows(call.tensor(0)).value;
  return back_in_steps(call, call.emit(std::move(operands))[0]);
}

struct Row {
  std::string_view name;
  BatchingRule rule;
};

constexpr Row kRows[] = {
    {"aten.mm", batch_mm},
    {"aten.addmm", batch_addmm},
    {"aten.mv", batch_mv},
    {"aten.bmm", batch_bmm},
    {"aten.convolution", batch_convolution},
};

}  // namespace

BatchingRule find_product_rule(const Op& op) {
  static const auto* const rules = [] {
    auto* const made = new std::unordered_map<c10::OperatorHandle, BatchingRule>;
    for (const Row& row : kRows) made->emplace(Op::find(row.name).handle(), row.rule);
    return made;
  }();
  const auto found = rules->find(op.handle());
  return found == rules->end() ? nullptr : found->second;
}

}  // namespace diptych::detail
