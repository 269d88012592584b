#include "diptych/trace/numbers_of_libraries.h"

#include <algorithm>

#include "diptych/base/check.h"
#include "diptych/graph/in_tensors.h"
#include "diptych/trace/location.h"
#include "diptych/trace/recorder.h"

namespace diptych::detail {
namespace {

// The answer to the last question that asked for what a result of the form holds.
const at::Tensor& answer_of(const Recorder& recorder, const at::Tensor& result) {
  const auto& all = recorder.asked_values().all();
  const auto found = std::find_if(all.rbegin(), all.rend(), [&](const AskedValue& asked) {
    return asked.value == as_fake(result)->value && asked.question == Question::kElements;
  });
  DIPTYCH_ASSERT(found != all.rend(), "a number of a library's operator was not asked for");
  return found->answer;
}

}  // namespace

bool record_numbers(Recorder& recorder, const c10::OperatorHandle& op, const OperatorPlan& plan,
                    torch::jit::Stack* stack) {
  if (plan.is_native || recorder.phase() != Phase::kForward || !recorder.asked_values().may_ask()) return false;
  const auto form = in_tensors(op);
  if (!form) return false;
  const size_t begin = stack->size() - plan.takes_tensor.size();
  recorder.record(*form, plan_for(*form), stack);
  const PauseTraceGuard real;
  const auto& returns = op.schema().returns();
  for (size_t i = 0; i < returns.size(); ++i) {
    c10::IValue& result = (*stack)[begin + i];
    if (!is_held_by_tensor(returns[i].type())) continue;
    result = held_by(answer_of(recorder, result.toTensor()), returns[i].type());
  }
  return true;
}

void refuse_unknown_numbers(const c10::OperatorHandle& op, const OperatorPlan& plan) {
  if (plan.is_native) return;
  const auto& returns = op.schema().returns();
  const bool are_tensors =
      std::none_of(returns.begin(), returns.end(), [](const auto& result) { return is_held_by_tensor(result.type()); });
  DIPTYCH_CHECK(are_tensors,
                "[trace] {} returns a number, which depends on values that are not known here; return a tensor from "
                "it, with a fake kernel (in Python register_fake()), and keep the decision in tensors (where, masking, "
                "cond), or call it outside the traced function",
                with_place(op.operator_name()));
}

}  // namespace diptych::detail
