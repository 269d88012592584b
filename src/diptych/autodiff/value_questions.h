// What a traced function asked for on the host, as graphs that ask the same of a later call.
#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "diptych/graph/graph.h"
#include "diptych/trace/recorder.h"

namespace diptych::detail {

/// Computes values of a graph that is being recorded from the real tensors that its primals stand for. Generators are
/// left as they were: the call itself draws the same numbers.
class PrefixValues {
 public:
  /// `recorder` outlives it. Requires: primals are real tensors, with elements.
  explicit PrefixValues(const Recorder& recorder) : recorder_(recorder) {}
  /// Returns a tensor without history. Errors: whatever a kernel throws.
  at::Tensor operator()(Value value);

 private:
  const Recorder& recorder_;
  std::map<Value, at::Tensor> known_;
};

/// One question, which depends on the primals and on the results of earlier questions.
struct ValueQuestion {
  /// An input of `graph`.
  struct Input {
    bool is_primal = false;
    size_t index = 0;   ///< of the primal, or of the earlier question
    size_t result = 0;  ///< of that question
    bool operator==(const Input&) const = default;
  };
  Graph graph;  ///< computes the value that is asked for, and then what is handed on
  std::vector<Input> inputs;
  Question question = Question::kElements;
  at::Tensor answer;  ///< a copy; where the sizes alone count, a meta tensor
  std::string place;
};

/// The questions of a trace.
///
///   Note [Segments]. Between two questions lies a segment of the function. What a segment computes is computed once:
///   the graph of a question hands on the results of its costly operators (products, convolutions, attention, loops,
///   operators of libraries), besides its answer, and the graphs of later questions and the forward take them. Cheap
///   operators are run again where they are needed, since taking their results would cut fused kernels apart and keep
///   more memory alive; so a question whose value is cheap to have leaves the forward as it is. Whatever depends on a
///   draw is computed again from the same numbers. See reuse_results.h for how the forward finds the results in itself.
struct AskedQuestions {
  std::vector<ValueQuestion> questions;
  std::vector<KnownAnswer> answers;  ///< to all that the trace asked, those included of which no question is left
  Graph handed_on;  ///< computes all that the questions hand on, question by question, from the primals
};

/// Returns the questions of a trace in their order, each once: those that ask for what an earlier one asked for, or for
/// what no argument changes, are left out. Requires: no backward has been traced.
AskedQuestions find_questions(const Recorder& recorder);

/// Whether sizes that are asked for may depend on how some operator before rounds: then whatever runs the graph has to
/// round as the question does, or it would find other sizes.
bool sizes_depend_on_rounding(const std::vector<ValueQuestion>& questions);

/// Whether some question draws random numbers.
bool any_draws(const std::vector<ValueQuestion>& questions);

}  // namespace diptych::detail
