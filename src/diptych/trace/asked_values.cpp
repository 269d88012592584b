#include "diptych/trace/asked_values.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/all.h>
#include <ATen/ops/atleast_1d.h>
#include <ATen/ops/broadcast_tensors.h>
#include <ATen/ops/ctc_loss.h>
#include <ATen/ops/div.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/index.h>
#include <ATen/ops/isclose.h>
#include <ATen/ops/item.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/unbind.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "diptych/base/check.h"
#include "diptych/graph/in_tensors.h"
#include "diptych/trace/exchange_tensors.h"
#include "diptych/trace/generator_watch.h"
#include "diptych/trace/location.h"
#include "diptych/trace/packed_sequences.h"
#include "diptych/trace/recorder.h"
#include "diptych/trace/trace_guard.h"

namespace diptych::detail {
namespace {

using torch::jit::Stack;

// What an operator that needs values returns, in terms of questions and of operators that need none; nullopt where it
// is to run as it is: since it raises an error, or since `arguments` hold the values now.
using Results = std::optional<std::vector<c10::IValue>>;
using Answer = Results (*)(Recorder&, std::span<c10::IValue> arguments, const std::string& place);

Results one(c10::IValue result) { return std::vector<c10::IValue>{std::move(result)}; }

at::Tensor ask(Recorder& recorder, const at::Tensor& tensor, Question question, const std::string& place) {
  return recorder.asked_values().ask(recorder.value_of(tensor), question, place);
}

Results number_of(Recorder& recorder, std::span<c10::IValue> arguments, const std::string& place) {
  const at::Tensor answer = ask(recorder, arguments[0].toTensor(), Question::kElements, place);
  const PauseTraceGuard real;
  return one(answer.item());
}

bool is_true(Recorder& recorder, const at::Tensor& tensor, const std::string& place) {
  const at::Tensor answer = ask(recorder, tensor, Question::kTruth, place);
  const PauseTraceGuard real;
  return answer.is_nonzero();
}

Results truth_of(Recorder& recorder, std::span<c10::IValue> arguments, const std::string& place) {
  if (arguments[0].toTensor().numel() != 1) return std::nullopt;
  return one(is_true(recorder, arguments[0].toTensor(), place));
}

Results equality_of(Recorder& recorder, std::span<c10::IValue> arguments, const std::string& place) {
  const at::Tensor& left = arguments[0].toTensor();
  const at::Tensor& right = arguments[1].toTensor();
  if (left.device() != right.device()) return std::nullopt;
  if (left.sizes() != right.sizes()) return one(false);
  return one(is_true(recorder, at::all(at::eq(left, right)), place));
}

Results closeness_of(Recorder& recorder, std::span<c10::IValue> arguments, const std::string& place) {
  const at::Tensor close = at::isclose(arguments[0].toTensor(), arguments[1].toTensor(), arguments[2].toDouble(),
                                       arguments[3].toDouble(), arguments[4].toBool());
  return one(is_true(recorder, at::all(close), place));
}

// The same with the places of the true elements in place of a mask, as eager's kernel has it. Gradients of any order
// are then gathers and scatters by these places, whose sizes are known.
Results chosen_by_masks(Recorder&, std::span<c10::IValue> arguments, const std::string&) {
  c10::List<std::optional<at::Tensor>> indices;
  c10::IntArrayRef sizes = arguments[0].toTensor().sizes();  // of the dimensions that are not indexed yet
  for (const std::optional<at::Tensor>& index : optional_tensors(arguments[1])) {
    const bool is_mask = index && index->defined() && is_mask_dtype(index->scalar_type());
    const size_t dims = is_mask ? static_cast<size_t>(index->dim()) : 1;
    // What fits no mask is the operator's own error.
    if (dims == 0 || dims > sizes.size() || (is_mask && index->sizes() != sizes.slice(0, dims))) return std::nullopt;
    sizes = sizes.slice(dims);
    if (!is_mask) {
      indices.push_back(index);
    } else {
      for (const at::Tensor& places : at::unbind(at::nonzero(*index), 1)) indices.push_back(places);
    }
  }
  return one(at::index(arguments[0].toTensor(), indices));
}

Results masked(Recorder&, std::span<c10::IValue> arguments, const std::string&) {
  const at::Tensor& mask = arguments[1].toTensor();
  if (mask.scalar_type() != at::kBool) return std::nullopt;
  const auto both = at::broadcast_tensors({at::atleast_1d(arguments[0].toTensor()), at::atleast_1d(mask)});
  return one(at::index(both[0], {both[1]}));
}

Results packed(Recorder& recorder, std::span<c10::IValue> arguments, const std::string& place) {
  return pack(recorder, arguments, place);
}

Results padded(Recorder& recorder, std::span<c10::IValue> arguments, const std::string& place) {
  return pad(recorder, arguments, place);
}

// Recurrent layers on a packed sequence, which are composites of operators on its steps.
Results of_steps(Recorder& recorder, std::span<c10::IValue> arguments, const std::string& place) {
  arguments[1] = ask(recorder, arguments[1].toTensor(), Question::kElements, place);
  return std::nullopt;
}

std::vector<int64_t> lengths_in(Recorder& recorder, const c10::IValue& lengths, const std::string& place) {
  const at::Tensor answer = ask(recorder, lengths.toTensor(), Question::kElements, place);
  const PauseTraceGuard real;
  const at::Tensor whole = answer.to(at::kLong).contiguous();
  return {whole.const_data_ptr<int64_t>(), whole.const_data_ptr<int64_t>() + whole.numel()};
}

// The same loss by lists of lengths. Other dtypes than of integers are the operator's own error.
Results loss_by_lengths(Recorder& recorder, std::span<c10::IValue> arguments, const std::string& place) {
  const auto are_lengths = [](const c10::IValue& one) {
    return at::isIntegralType(one.toTensor().scalar_type(), false);
  };
  if (!are_lengths(arguments[2]) || !are_lengths(arguments[3])) return std::nullopt;
  const std::vector<int64_t> of_inputs = lengths_in(recorder, arguments[2], place);
  const std::vector<int64_t> of_targets = lengths_in(recorder, arguments[3], place);
  const bool is_mean = arguments[5].toInt() == at::Reduction::Mean;
  const at::Tensor loss =
      at::ctc_loss(arguments[0].toTensor(), arguments[1].toTensor(), of_inputs, of_targets, arguments[4].toInt(),
                   is_mean ? at::Reduction::None : arguments[5].toInt(), arguments[6].toBool());
  if (!is_mean) return one(loss);
  // The operator makes a tensor of the lengths, which a trace takes for one of its own.
  at::Tensor lengths;
  {
    const PauseTraceGuard real;
    lengths = at::tensor(of_targets, at::TensorOptions(loss.scalar_type())).clamp_min(1);
  }
  return one(at::mean(at::div(loss, recorder.lift(lengths))));
}

constexpr struct {
  std::string_view name;
  Answer answer;
} kAnswers[] = {
    {"aten::_local_scalar_dense", number_of},
    {"aten::_pack_padded_sequence", packed},
    {"aten::_pad_packed_sequence", padded},
    {"aten::allclose", closeness_of},
    {"aten::ctc_loss", loss_by_lengths},
    {"aten::equal", equality_of},
    {"aten::gru", of_steps},
    {"aten::index", chosen_by_masks},
    {"aten::is_nonzero", truth_of},
    {"aten::lstm", of_steps},
    {"aten::masked_select", masked},
    {"aten::rnn_relu", of_steps},
    {"aten::rnn_tanh", of_steps},
};

// The call is repeated whenever the question is, and must draw the same numbers as the call itself.
[[noreturn]] void refuse_draw(const c10::OperatorHandle& op) {
  throw_user_error(fmt::format(
      "[trace] {} draws random numbers, and {}, or call it outside the traced function", with_place(op.operator_name()),
      results_in_tensors(op).empty()
          ? "has no fake kernel that tells the sizes of its results without a draw; register one (in Python "
            "with register_fake())"
          : "returns a number, which is only known after the draw; return a tensor in its place and take "
            "item() of it, with a fake kernel"));
}

void check_draws_nothing(const c10::OperatorHandle& op, const OperatorPlan& plan, const Stack& stack) {
  const bool takes_generator =
      std::any_of(stack.end() - static_cast<std::ptrdiff_t>(plan.takes_tensor.size()), stack.end(),
                  [](const c10::IValue& argument) { return argument.isGenerator(); });
  if (plan.draws_random || takes_generator) refuse_draw(op);
}

// Runs the operator on the real tensors that end the stack. A library's operator may draw without saying so.
void run_for_real(const c10::OperatorHandle& op, const OperatorPlan& plan, Stack* stack) {
  const PauseTraceGuard real;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::NoGradGuard no_grad;
  if (plan.is_native) return op.callBoxed(stack);
  const KeepDefaultGenerator keep;
  op.callBoxed(stack);
  if (keep.has_drawn()) refuse_draw(op);
}

// Returns what a result looks like, and adds its tensors to those of the call.
c10::IValue meta_of(const c10::OperatorHandle& op, const c10::IValue& result, std::vector<at::Tensor>& results) {
  const auto add = [&](const at::Tensor& real) -> at::Tensor {
    results.push_back(real);
    if (!real.defined()) return real;
    return at::detail::empty_strided_meta(real.sizes(), real.strides(), real.scalar_type());
  };
  if (result.isTensor()) return add(result.toTensor());
  DIPTYCH_CHECK(result.isTensorList(),
                "[trace] {} returns {}, which is neither a tensor nor a number; call it outside the traced function",
                with_place(op.operator_name()), result.tagKind());
  c10::List<at::Tensor> list;
  for (const at::Tensor& real : result.toTensorVector()) list.push_back(add(real));
  return list;
}

}  // namespace

at::Tensor AskedValues::compute(Value value) const {
  DIPTYCH_CHECK(compute_ != nullptr, "[trace] a value is needed that is not known at other sizes than those of a call");
  return compute_(value);
}

at::Tensor AskedValues::assumed_answer(Question question) const {
  const bool is_known = all_.size() < assumed_->size() && (*assumed_)[all_.size()].question == question;
  const at::Tensor answer = is_known ? (*assumed_)[all_.size()].answer : at::Tensor();
  DIPTYCH_CHECK(is_known && question != Question::kSizes && answer.numel() == 1,
                "[trace] a value is asked for whose answer at other sizes is not known");
  return answer;
}

at::Tensor AskedValues::ask(Value value, Question question, std::string place) {
  at::Tensor answer = assumed_ == nullptr ? compute(value) : assumed_answer(question);
  all_.push_back({value, question, answer, std::move(place)});
  return answer;
}

bool answer_on_host(Recorder& recorder, const c10::OperatorHandle& op, Stack* stack) {
  const auto* row = std::find_if(std::begin(kAnswers), std::end(kAnswers),
                                 [&](const auto& known) { return known.name == op.operator_name().name; });
  if (row == std::end(kAnswers)) return false;
  const size_t begin = stack->size() - op.schema().arguments().size();
  const std::span<c10::IValue> arguments(stack->data() + begin, stack->size() - begin);
  auto answer = row->answer(recorder, arguments, with_place(op.operator_name()));
  if (!answer) return false;
  stack->resize(begin);
  std::move(answer->begin(), answer->end(), std::back_inserter(*stack));
  return true;
}

std::vector<at::Tensor> run_on_values(Recorder& recorder, const c10::OperatorHandle& op, const OperatorPlan& plan,
                                      Stack* stack) {
  const size_t begin = stack->size() - plan.takes_tensor.size();
  const auto real_of = [&](const at::Tensor& tensor) -> at::Tensor {
    const bool is_number = tensor.defined() && tensor.unsafeGetTensorImpl()->is_wrapped_number();
    if (!tensor.defined() || (is_number && !recorder.owns(tensor))) return tensor;
    return recorder.asked_values().compute(recorder.value_of(recorder.stand_in(tensor)));
  };
  exchange_each(plan, *stack, real_of);
  if (!plan.is_native) check_draws_nothing(op, plan, *stack);
  run_for_real(op, plan, stack);
  std::vector<at::Tensor> results;
  for (size_t i = begin; i < stack->size(); ++i) (*stack)[i] = meta_of(op, (*stack)[i], results);
  return results;
}

}  // namespace diptych::detail
