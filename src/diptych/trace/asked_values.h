// Values that a traced function asks for on the host: item(), a branch on a tensor, how many elements of a mask are
// true. A trace has no values; where its function runs on real arguments, they are computed, and the rest of the trace
// holds for these answers alone.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>
#include <string>
#include <vector>

#include "diptych/graph/graph.h"
#include "diptych/trace/operator_plan.h"

namespace diptych::detail {

class Recorder;

/// What is asked of a tensor.
enum class Question : uint8_t {
  kElements,  ///< what its elements are
  kTruth,     ///< whether its only element differs from zero
  kSizes,     ///< what its sizes are, which follow from elements of other tensors
};

/// A question of a traced function.
struct AskedValue {
  Value value;  ///< of the recorded graph
  Question question = Question::kElements;
  at::Tensor answer;  ///< a real tensor: the value itself
  std::string place;  ///< the operator that asked, with the caller's scope and line
};

/// What an earlier trace was answered.
struct KnownAnswer {
  Question question = Question::kElements;
  at::Tensor answer;
};

/// The questions of one trace.
class AskedValues {
 public:
  /// Returns the real tensor of a value of the graph that is being recorded.
  using Compute = std::function<at::Tensor(Value)>;

  /// From now on the function may ask, if `compute` is not empty.
  void set_source(Compute compute) { compute_ = std::move(compute); }
  /// From now on the function may ask, and gets these answers, one after the other: it is traced at sizes of which no
  /// values are known. `answers` outlives the trace of the function.
  void assume(const std::vector<KnownAnswer>& answers) { assumed_ = &answers; }
  bool may_ask() const { return compute_ != nullptr || assumed_ != nullptr; }
  /// Requires: may_ask(). Errors: UserError where answers are assumed.
  at::Tensor compute(Value value) const;
  /// Computes a value and remembers that it was asked for. Requires: may_ask(). Errors: UserError if another question
  /// was asked where answers are assumed, or one that other sizes may answer in another way.
  at::Tensor ask(Value value, Question question, std::string place);
  /// Remembers a value that is known already. Requires: may_ask().
  void add(AskedValue asked) { all_.push_back(std::move(asked)); }
  const std::vector<AskedValue>& all() const { return all_; }

 private:
  at::Tensor assumed_answer(Question question) const;

  Compute compute_;
  const std::vector<KnownAnswer>* assumed_ = nullptr;
  std::vector<AskedValue> all_;
};

/// Answers a call that hands a number to the host, chooses elements by a mask, or reads lengths: exchanges the
/// arguments that end the stack for the results, and returns true. For another operator, returns false; an argument
/// that its composite kernel reads on the host is then a real tensor. Requires: asked_values().may_ask(); tensor
/// arguments are stand-ins.
bool answer_on_host(Recorder& recorder, const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Exchanges the arguments that end the stack, stand-ins, for the results of the call, as meta tensors; returns the
/// real results. The sizes of the results depend on elements. Requires: asked_values().may_ask().
std::vector<at::Tensor> run_on_values(Recorder& recorder, const c10::OperatorHandle& op, const OperatorPlan& plan,
                                      torch::jit::Stack* stack);

}  // namespace diptych::detail
