// The answers that a capture holds for, where the function asks for values on the host.
#pragma once
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "diptych/autodiff/value_questions.h"
#include "diptych/interpreter/program.h"

namespace diptych::detail {

/// What asking a question has found: first the value, and then what is handed on.
struct FoundAnswer {
  std::vector<at::Tensor> results;
  bool is_true = false;  ///< the value of Question::kTruth

  const at::Tensor& value() const { return results.front(); }
};

/// Whether two answers to a question lead a function the same way.
bool same_answer(Question question, const at::Tensor& a, const at::Tensor& b);

/// A question, ready to be asked. Threads: any.
class PathQuestion {
 public:
  /// `primals`: those of the capture that asks, of which the first `num_arguments` are arguments. Errors: as Program.
  PathQuestion(const ValueQuestion& question, c10::ArrayRef<const at::Tensor*> primals, size_t num_arguments);
  /// Returns what is found for these primals, given what earlier questions have found. Generators are left as they
  /// were. Errors: as Program::run().
  FoundAnswer ask(c10::ArrayRef<const at::Tensor*> primals, c10::ArrayRef<const FoundAnswer*> earlier) const;
  /// The answer of which the results are given.
  FoundAnswer answer(std::vector<at::Tensor> results) const;
  /// Whether two answers lead the function the same way.
  bool same_answer(const FoundAnswer& a, const FoundAnswer& b) const;
  /// An answer in words.
  std::string words(const FoundAnswer& answer) const;
  const std::string& place() const { return place_; }
  const Graph& graph() const { return program_.graph(); }
  /// Whether another question asks the same: it has the same graph, of the same arguments and free variables.
  bool same_as(const PathQuestion& other) const;

 private:
  std::vector<ValueQuestion::Input> inputs_;
  Question question_;
  std::string place_;
  std::vector<const at::TensorImpl*> free_variables_;  ///< of the inputs; only compared
  Program program_;
  std::vector<at::Generator> generators_;
};

/// What was found by asking the questions of several paths for one call: each is asked once.
using FoundAnswers = std::map<const PathQuestion*, FoundAnswer>;

/// The questions of one capture, and what the answers were. Captures of one function whose guards are the same form a
/// tree: as long as the answers are the same, so are the questions.
///
///   Note [A tree of captures]. A function that asks for a value is captured for the answer. A later call asks first,
///   by the graph of the question, which is a part of the forward; where no capture knows the answer, the function is
///   captured once more. What follows from a question is shared with no other path, since its graph is another one.
///   Nothing is written and no generator moves while questions are asked, so the call itself does both once.
class ValuePath {
 public:
  /// `primals`: those of the capture that asked, of which the first `num_arguments` are arguments.
  ValuePath(const std::vector<ValueQuestion>& questions, c10::ArrayRef<const at::Tensor*> primals,
            size_t num_arguments);
  /// Takes the questions of `other` in place of its own as far as they are the same, so that each is asked once.
  void share(const ValuePath& other);
  /// The first question whose answer is not that of this path for a call; nullopt if there is none.
  std::optional<size_t> first_difference(c10::ArrayRef<const at::Tensor*> primals, FoundAnswers& found) const;
  /// How the answer to a question that was asked differs from that of this path, in words.
  std::string difference(size_t index, const FoundAnswers& found) const;
  /// Returns what the questions hand on to the forward, question by question, asking those that were not asked yet.
  std::vector<at::Tensor> handed_on(c10::ArrayRef<const at::Tensor*> primals, FoundAnswers found = {}) const;
  size_t size() const { return questions_.size(); }
  /// What was asked, and where.
  const std::string& question(size_t index) const { return questions_[index]->place(); }
  /// The answer in words.
  std::string answer(size_t index) const { return questions_[index]->words(answers_[index]); }
  /// One line per question: what was asked, where, and the answer.
  std::string text() const;

 private:
  /// Asks the questions in order, as long as `goes_on(index, answer)`.
  template <class GoesOn>
  void ask(c10::ArrayRef<const at::Tensor*> primals, FoundAnswers& found, const GoesOn& goes_on) const;

  std::vector<std::shared_ptr<const PathQuestion>> questions_;
  std::vector<FoundAnswer> answers_;
};

}  // namespace diptych::detail
