// The generic set: each operator inside each of the library's, and around it.
#include "hops/generic_set.h"
#include "testing/rotation.h"

namespace diptych::testing {
namespace {

using T = const Tensors&;

enum class Way : uint8_t { kByOperator, kWrittenOut };

// An inner loop of two steps over a slice and its half. What an operator without carries gives out is summed.
StepResult inner_loop(const LoopFunction& inner, const Step& step, const at::Tensor& carry, const at::Tensor& slice) {
  const StepResult found = inner(step, {carry}, {torch::stack({slice, slice * 0.5})}, 2);
  if (!found.first.empty()) return found;
  return {{found.second[0].sum(0)}, {found.second[1]}};
}

// A loop of `subjects`, the first one outermost.
StepResult nested(const std::vector<Subject>& subjects, Way way, size_t depth, const Step& innermost, T carry,
                  T slices) {
  const Step step = [&](T c, T x) -> StepResult {
    return depth + 1 == subjects.size() ? innermost(c, x) : nested(subjects, way, depth + 1, innermost, c, x);
  };
  const LoopFunction& run = way == Way::kByOperator ? subjects[depth].run : subjects[depth].reference;
  return inner_loop(run, step, carry[0], slices[0]);
}

Case nested_case(std::vector<Subject> subjects, Way way, bool with_dropout) {
  return {.leaves =
              [] {
                return Tensors{leaf64({2}), leaf64({2, 2}, 0.3), leaf64({2}, 0.7)};
              },
          .step =
              [=](T carry, T slices, T captured) {
                const Step innermost = [&](T c, T x) -> StepResult {
                  at::Tensor h = (c[0] * captured[0] + x[0]).tanh();
                  if (with_dropout) h = torch::dropout(h, 0.3, true);
                  return {{h}, {h * captured[0]}};
                };
                return nested(subjects, way, 0, innermost, carry, slices);
              },
          .length = 2,
          .tolerance = 1e-10};
}

// The outer operator with the inner ones in its steps, against loops in loops.
void expect_nested(const Subject& outer, const std::vector<Subject>& inner, bool with_dropout = false) {
  const Case ours = nested_case(inner, Way::kByOperator, with_dropout);
  const Function expected = nested_case(inner, Way::kWrittenOut, with_dropout).written_out_for(outer);
  const CheckOptions options{.tolerance = ours.tolerance, .calls = 1};
  {
    SCOPED_TRACE("in eager");
    expect_alike({ours.leaves}, expected, ours.run_by(outer), options);
  }
  SCOPED_TRACE("in an aot_function");
  expect_compiled_as({ours.leaves}, expected, ours.run_by(outer), options);
}

void every_operator_inside(const Subject& subject) {
  for (const Subject& inner : library_subjects()) {
    SCOPED_TRACE(inner.name);
    expect_nested(subject, {inner});
  }
}

void inside_every_operator(const Subject& subject) {
  for (const Subject& outer : library_subjects()) {
    SCOPED_TRACE(outer.name);
    expect_nested(outer, {subject});
  }
}

void three_deep(const Subject& subject) {
  expect_nested(subject, {library_subjects()[0], subject});
  expect_nested(library_subjects()[0], {subject, library_subjects().back()});
}

void dropout_inside(const Subject& subject) {
  for (const Subject& inner : library_subjects()) {
    if (!inner.keeps_draws_in_captures || !subject.keeps_draws_in_captures) continue;
    SCOPED_TRACE(inner.name);
    expect_nested(subject, {inner}, /*with_dropout=*/true);
  }
}

void second_order_of_nested_operators(const Subject& subject) {
  for (const Subject& inner : library_subjects()) {
    SCOPED_TRACE(inner.name);
    const Case loop = nested_case({inner}, Way::kByOperator, false);
    for (const Caller& caller : callers()) {
      if (!takes_sample("a caller")) continue;
      SCOPED_TRACE(caller.name);
      expect_derivatives_right(loop.inputs(), caller.wrap(loop.run_by(subject)));
    }
  }
}

}  // namespace

const std::vector<Check>& nesting_checks() {
  static const std::vector<Check> kAll{
      {"EveryOperatorInside", every_operator_inside},
      {"InsideEveryOperator", inside_every_operator},
      {"ThreeDeep", three_deep},
      {"DropoutInside", dropout_inside},
      {"SecondOrderOfNestedOperators", second_order_of_nested_operators},
  };
  return kAll;
}

}  // namespace diptych::testing
