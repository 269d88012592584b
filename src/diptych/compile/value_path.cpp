#include "diptych/compile/value_path.h"

#include <ATen/ops/is_nonzero.h>
#include <ATen/ops/item.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "diptych/autodiff/generator_states.h"
#include "diptych/graph/identical.h"
#include "diptych/interpreter/run_guards.h"

namespace diptych::detail {
namespace {

// The only element, or the first ones: "[1, 2, 3, ...]".
std::string elements_in_words(const at::Tensor& answer) {
  constexpr int64_t kMost = 8;
  const at::Tensor elements = answer.flatten();
  std::ostringstream text;
  for (int64_t i = 0; i < std::min(elements.numel(), kMost); ++i) {
    const at::Scalar element = elements[i].item();
    text << (i == 0 ? "" : ", ");
    if (element.isIntegral(/*includeBool=*/false) && elements.scalar_type() == at::kUInt64) {
      text << element.toUInt64();  // a Scalar is printed as a signed integer
    } else {
      text << element;
    }
  }
  if (elements.numel() == 1) return text.str();
  return fmt::format("[{}{}]", text.str(), elements.numel() > kMost ? ", ..." : "");
}

}  // namespace

PathQuestion::PathQuestion(const ValueQuestion& question, c10::ArrayRef<const at::Tensor*> primals,
                           size_t num_arguments)
    : inputs_(question.inputs), question_(question.question), place_(question.place), program_(question.graph) {
  for (const auto& input : inputs_) {
    if (input.is_primal && input.index >= num_arguments) {
      free_variables_.push_back(primals[input.index]->unsafeGetTensorImpl());
    }
  }
}

std::vector<at::Tensor> PathQuestion::ask(c10::ArrayRef<const at::Tensor*> primals,
                                          const std::vector<const std::vector<at::Tensor>*>& earlier) const {
  const Rewind rewind(generators_of(graph()));
  const RunBelowAutograd below;
  std::vector<at::Tensor> inputs;
  for (const auto& input : inputs_) {
    inputs.push_back(input.is_primal ? *primals[input.index] : earlier.at(input.index)->at(input.result));
  }
  return program_.run(std::move(inputs));
}

bool PathQuestion::same_answer(const at::Tensor& a, const at::Tensor& b) const {
  switch (question_) {
    case Question::kSizes:  // a library's operator may lay its result out by values, too
      return a.sizes() == b.sizes() && a.strides() == b.strides() && a.scalar_type() == b.scalar_type();
    case Question::kTruth:
      return a.is_nonzero() == b.is_nonzero();
    default:
      // Bit by bit, so that NaN is NaN and -0 is not 0.
      return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && dense_bytes(a) == dense_bytes(b);
  }
}

std::string PathQuestion::words(const at::Tensor& answer) const {
  if (question_ == Question::kSizes) return fmt::format("of sizes [{}]", fmt::join(answer.sizes(), ", "));
  if (question_ == Question::kTruth) return answer.is_nonzero() ? "true" : "false";
  return elements_in_words(answer);
}

bool PathQuestion::same_as(const PathQuestion& other) const {
  return question_ == other.question_ && inputs_ == other.inputs_ && free_variables_ == other.free_variables_ &&
         same_but_origins(graph(), other.graph());
}

ValuePath::ValuePath(const std::vector<ValueQuestion>& questions, c10::ArrayRef<const at::Tensor*> primals,
                     size_t num_arguments) {
  for (const ValueQuestion& question : questions) {
    questions_.push_back(std::make_shared<const PathQuestion>(question, primals, num_arguments));
    answers_.push_back(question.answer);
  }
}

void ValuePath::share(const ValuePath& other) {
  for (size_t i = 0; i < std::min(size(), other.size()); ++i) {
    if (!questions_[i]->same_as(*other.questions_[i])) return;
    questions_[i] = other.questions_[i];
    if (!questions_[i]->same_answer(answers_[i], other.answers_[i])) return;
  }
}

template <class GoesOn>
void ValuePath::ask(c10::ArrayRef<const at::Tensor*> primals, FoundAnswers& found, const GoesOn& goes_on) const {
  std::vector<const std::vector<at::Tensor>*> earlier;
  for (size_t i = 0; i < size(); ++i) {
    const PathQuestion& question = *questions_[i];
    auto known = found.find(&question);
    if (known == found.end()) known = found.emplace(&question, question.ask(primals, earlier)).first;
    earlier.push_back(&known->second);
    if (!goes_on(i, known->second.front())) return;
  }
}

bool ValuePath::holds(c10::ArrayRef<const at::Tensor*> primals, FoundAnswers& found, std::string& difference) const {
  bool holds = true;
  ask(primals, found, [&](size_t index, const at::Tensor& answer) {
    const PathQuestion& question = *questions_[index];
    holds = question.same_answer(answer, answers_[index]);
    if (!holds) {
      difference = fmt::format("the value that {} asks for is {}, was {}", question.place(), question.words(answer),
                               question.words(answers_[index]));
    }
    return holds;
  });
  return holds;
}

std::vector<at::Tensor> ValuePath::handed_on(c10::ArrayRef<const at::Tensor*> primals, FoundAnswers found) const {
  ask(primals, found, [](size_t, const at::Tensor&) { return true; });
  std::vector<at::Tensor> results;
  for (const auto& question : questions_) {
    const std::vector<at::Tensor>& of_question = found.at(question.get());
    results.insert(results.end(), of_question.begin() + 1, of_question.end());
  }
  return results;
}

std::string ValuePath::text() const {
  std::string text;
  for (size_t i = 0; i < size(); ++i) {
    text += fmt::format("{}{}: {}", i == 0 ? "" : "\n", question(i), answer(i));
  }
  return text;
}

}  // namespace diptych::detail
