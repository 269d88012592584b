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

bool same_answer(Question question, const at::Tensor& a, const at::Tensor& b) {
  switch (question) {
    case Question::kSizes:  // a library's operator may lay its result out by values, too
      return a.sizes() == b.sizes() && a.strides() == b.strides() && a.scalar_type() == b.scalar_type();
    case Question::kTruth:
      return a.is_nonzero() == b.is_nonzero();
    default:
      // Bit by bit, so that NaN is NaN and -0 is not 0.
      return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && dense_bytes(a) == dense_bytes(b);
  }
}

PathQuestion::PathQuestion(const ValueQuestion& question, c10::ArrayRef<const at::Tensor*> primals,
                           size_t num_arguments)
    : inputs_(question.inputs),
      question_(question.question),
      place_(question.place),
      program_(question.graph, {.is_checked = question.question != Question::kSizes}),
      generators_(generators_of(question.graph)) {
  for (const auto& input : inputs_) {
    if (input.is_primal && input.index >= num_arguments) {
      free_variables_.push_back(primals[input.index]->unsafeGetTensorImpl());
    }
  }
}

FoundAnswer PathQuestion::ask(c10::ArrayRef<const at::Tensor*> primals,
                              c10::ArrayRef<const FoundAnswer*> earlier) const {
  const Rewind rewind(generators_);
  const RunBelowAutograd below;
  std::vector<at::Tensor> inputs;
  inputs.reserve(inputs_.size());
  for (const auto& input : inputs_) {
    inputs.push_back(input.is_primal ? *primals[input.index] : earlier.at(input.index)->results.at(input.result));
  }
  return answer(program_.run(std::move(inputs)));
}

FoundAnswer PathQuestion::answer(std::vector<at::Tensor> results) const {
  const bool is_true = question_ == Question::kTruth && results.front().is_nonzero();
  return {std::move(results), is_true};
}

bool PathQuestion::same_answer(const FoundAnswer& a, const FoundAnswer& b) const {
  return question_ == Question::kTruth ? a.is_true == b.is_true
                                       : diptych::detail::same_answer(question_, a.value(), b.value());
}

std::string PathQuestion::words(const FoundAnswer& answer) const {
  if (question_ == Question::kSizes) return fmt::format("of sizes [{}]", fmt::join(answer.value().sizes(), ", "));
  if (question_ == Question::kTruth) return answer.is_true ? "true" : "false";
  return elements_in_words(answer.value());
}

bool PathQuestion::same_as(const PathQuestion& other) const {
  return question_ == other.question_ && inputs_ == other.inputs_ && free_variables_ == other.free_variables_ &&
         same_but_origins(graph(), other.graph());
}

ValuePath::ValuePath(const std::vector<ValueQuestion>& questions, c10::ArrayRef<const at::Tensor*> primals,
                     size_t num_arguments) {
  for (const ValueQuestion& question : questions) {
    questions_.push_back(std::make_shared<const PathQuestion>(question, primals, num_arguments));
    answers_.push_back(questions_.back()->answer({question.answer}));
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
  c10::SmallVector<const FoundAnswer*, 8> earlier;
  for (size_t i = 0; i < size(); ++i) {
    const PathQuestion& question = *questions_[i];
    auto known = found.find(&question);
    if (known == found.end()) known = found.emplace(&question, question.ask(primals, earlier)).first;
    earlier.push_back(&known->second);
    if (!goes_on(i, known->second)) return;
  }
}

std::optional<size_t> ValuePath::first_difference(c10::ArrayRef<const at::Tensor*> primals, FoundAnswers& found) const {
  std::optional<size_t> first;
  ask(primals, found, [&](size_t index, const FoundAnswer& answer) {
    if (!questions_[index]->same_answer(answer, answers_[index])) first = index;
    return !first;
  });
  return first;
}

std::string ValuePath::difference(size_t index, const FoundAnswers& found) const {
  const PathQuestion& asked = *questions_[index];
  return fmt::format("the value that {} asks for is {}, was {}", asked.place(), asked.words(found.at(&asked)),
                     asked.words(answers_[index]));
}

std::vector<at::Tensor> ValuePath::handed_on(c10::ArrayRef<const at::Tensor*> primals, FoundAnswers found) const {
  ask(primals, found, [](size_t, const FoundAnswer&) { return true; });
  std::vector<at::Tensor> results;
  for (const auto& question : questions_) {
    const std::vector<at::Tensor>& of_question = found.at(question.get()).results;
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
