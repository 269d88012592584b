// The generic set: bodies that draw random numbers draw what the loop draws, in its order, and once.
#include "hops/generic_set.h"
#include "testing/refusal.h"

namespace diptych::testing {
namespace {

using T = const Tensors&;

StepResult with_dropout(T carry, T slices, T captured) {
  const at::Tensor h = torch::dropout(carry[0] * captured[0] + slices[0].sin(), 0.4, true).tanh();
  return {{h}, {torch::dropout(h, 0.2, true) * 2}};
}

Case dropout_case() { return {.leaves = three, .step = with_dropout}; }

// Where it is not known how many steps will draw, a capture that is differentiated is refused; eager is not.
void expect_as_loop_or_refused(const Subject& subject, const Case& loop) {
  if (subject.keeps_draws_in_captures) return expect_as_loop(subject, loop);
  expect_alike({loop.leaves}, loop.written_out_for(subject), loop.run_by(subject), {.tolerance = loop.tolerance});
  expect_refusal([&] { (void)aot_function(loop.run_by(subject))(loop.inputs()); },
                 {"draws random numbers", "pass the numbers in"});
}

std::vector<Caller> callers_that_draw(const Subject& subject) {
  return subject.keeps_draws_in_captures ? callers() : std::vector<Caller>{callers()[0]};
}

void dropout(const Subject& subject) { expect_as_loop_or_refused(subject, dropout_case()); }

void draws_that_nothing_uses(const Subject& subject) {
  expect_as_loop_or_refused(subject,
                            {.leaves = three, .step = [](T c, T x, T w) -> StepResult {
                               (void)torch::rand({2});
                               return {{c[0] * w[0] + torch::randn({3}, torch::kFloat64)}, {x[0] * torch::rand({3})}};
                             }});
}

// What a step draws depends on what the steps before it drew.
void probability_of_the_carry(const Subject& subject) {
  expect_as_loop_or_refused(subject, {.leaves = three, .step = [](T c, T x, T w) -> StepResult {
                                        const at::Tensor mask = torch::bernoulli(torch::sigmoid(c[0].detach() * 2));
                                        const at::Tensor h = c[0] * mask + x[0] * w[0] * (1 - mask);
                                        return {{h}, {mask, h * 2}};
                                      }});
}

struct Drawn {
  Tensors tensors;
  at::Tensor next;  // what the generator gives afterwards
};

Drawn derivatives(const Function& function, const Case& loop, bool second_order) {
  torch::manual_seed(31);
  const Tensors inputs = loop.inputs();
  at::Tensor loss = torch::zeros({}, torch::kFloat64);
  for (const at::Tensor& output : function(inputs)) loss = loss + output.square().sum();
  Drawn drawn{torch::autograd::grad({loss}, inputs, {}, second_order, second_order, /*allow_unused=*/true), {}};
  if (second_order) {
    at::Tensor total = torch::zeros({}, torch::kFloat64);
    for (const at::Tensor& gradient : drawn.tensors) total = total + gradient.square().sum();
    for (const at::Tensor& gradient : torch::autograd::grad({total}, inputs)) drawn.tensors.push_back(gradient);
  }
  drawn.next = torch::rand({2});
  return drawn;
}

void expect_same_draws(const Subject& subject, const Case& loop, bool second_order) {
  const Drawn expected = derivatives(loop.written_out_for(subject), loop, second_order);
  for (const Caller& caller : callers_that_draw(subject)) {
    SCOPED_TRACE(caller.name);
    const Function function = caller.wrap(loop.run_by(subject));
    for (int call = 0; call < 2; ++call) {
      const Drawn got = derivatives(function, loop, second_order);
      EXPECT_TRUE(same_tensors(got.tensors, expected.tensors, within(1e-10)));
      EXPECT_TRUE(at::equal(expected.next, got.next)) << "the generator ends in another state";
    }
  }
}

void the_generator_ends_as_the_loops(const Subject& subject) { expect_same_draws(subject, dropout_case(), false); }
void second_order_replays_the_masks(const Subject& subject) { expect_same_draws(subject, dropout_case(), true); }

void every_call_draws_anew(const Subject& subject) {
  const Case loop = dropout_case();
  for (const Caller& caller : callers_that_draw(subject)) {
    const Function function = caller.wrap(loop.run_by(subject));
    const Tensors inputs = loop.inputs();
    EXPECT_FALSE(at::equal(function(inputs)[0], function(inputs)[0])) << caller.name;
  }
}

void capturing_draws_nothing(const Subject& subject) {
  if (!subject.keeps_draws_in_captures) return;
  const Case loop = dropout_case();
  torch::manual_seed(5);
  const at::Tensor expected = torch::rand({2});
  torch::manual_seed(5);
  (void)capture(loop.run_by(subject), loop.inputs());
  EXPECT_TRUE(at::equal(torch::rand({2}), expected));
}

}  // namespace

const std::vector<Check>& random_checks() {
  static const std::vector<Check> kAll{
      {"Dropout", dropout},
      {"DrawsThatNothingUses", draws_that_nothing_uses},
      {"ProbabilityOfTheCarry", probability_of_the_carry},
      {"TheGeneratorEndsAsTheLoops", the_generator_ends_as_the_loops},
      {"SecondOrderReplaysTheMasks", second_order_replays_the_masks},
      {"EveryCallDrawsAnew", every_call_draws_anew},
      {"CapturingDrawsNothing", capturing_draws_nothing},
  };
  return kAll;
}

}  // namespace diptych::testing
