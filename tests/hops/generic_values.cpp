// The generic set: what carries, slices, outputs and captured tensors may be.
#include "hops/generic_set.h"

namespace diptych::testing {
namespace {

using T = const Tensors&;

// Carry, slices and one captured tensor, all [2,3].

// Lengths.
template <int64_t kLength>
void of_length(const Subject& subject) {
  Case loop = cell(kLength);
  loop.depends_on_length = kLength == 0;
  expect_as_loop(subject, loop);
}

// Which of carry, slices and captured tensors require grad.
std::function<Tensors()> three_with_grad(bool carry, bool slices, bool captured) {
  return [=] {
    Tensors all = three();
    all[0].set_requires_grad(carry);
    all[1].set_requires_grad(slices);
    all[2].set_requires_grad(captured);
    return all;
  };
}

StepResult mix(T carry, T slices, T captured) {
  const at::Tensor h = (carry[0] * captured[0] + slices[0].sin()).tanh();
  return {{h}, {h * captured[0], slices[0] * 2}};
}

void every_choice_of_grad(const Subject& subject) {
  for (int mask = 0; mask < 8; ++mask) {
    SCOPED_TRACE(c10::str("carry ", mask & 1, ", slices ", (mask >> 1) & 1, ", captured ", mask >> 2));
    expect_as_loop(subject, {.leaves = three_with_grad(mask & 1, mask & 2, mask & 4), .step = mix});
  }
}

// Grad reaches the first carry from the second, one step late.
void carry_gains_grad_late(const Subject& subject) {
  expect_as_loop(subject,
                 {.leaves =
                      [] {
                        return Tensors{values64({3}), values64({3}, 0.2), values64({3, 3}, 0.4), leaf64({3}, 0.9)};
                      },
                  .num_carries = 2,
                  .step = [](T c, T x, T w) -> StepResult {
                    return {{c[1] + x[0], (c[0] * w[0]).sin()}, {c[0] * x[0]}};
                  }});
}

// What passes through.
void carry_becomes_a_constant(const Subject& subject) {
  expect_as_loop(subject, {.leaves = [] { return three(); },
                           .step = [](T c, T x, T w) -> StepResult {
                             return {{torch::full({2, 3}, 0.5, torch::kFloat64)}, {c[0] * w[0] + x[0]}};
                           },
                           .depends_on_length = true});
}

void outputs_without_carry(const Subject& subject) {
  expect_as_loop(subject, {.leaves = [] { return three(); },
                           .step = [](T c, T x, T w) -> StepResult {
                             return {{c[0] * 0.5}, {x[0] * w[0], x[0].exp()}};
                           }});
}

void no_carry_at_all(const Subject& subject) {
  expect_as_loop(subject, {.leaves =
                               [] {
                                 return Tensors{leaf64({3, 2}), leaf64({2}, 0.4)};
                               },
                           .num_carries = 0,
                           .step = [](T, T x, T w) -> StepResult {
                             return {{}, {x[0] * w[0]}};
                           }});
}

void no_slices_at_all(const Subject& subject) {
  if (subject.name == "map") return;  // its length is that of its slices
  expect_as_loop(subject, {.leaves =
                               [] {
                                 return Tensors{leaf64({2, 2}), leaf64({2, 2}, 0.4)};
                               },
                           .num_slices = 0,
                           .step = [](T c, T, T w) -> StepResult {
                             return {{c[0].mm(w[0])}, {c[0].sum()}};
                           }});
}

void identity(const Subject& subject) {
  expect_as_loop(subject, {.leaves = [] { return three(); },
                           .step = [](T c, T x, T) -> StepResult {
                             return {{c[0]}, {x[0], c[0]}};
                           }});
}

void slice_becomes_carry(const Subject& subject) {
  expect_as_loop(subject, {.leaves = [] { return three(); },
                           .step = [](T c, T x, T) -> StepResult {
                             return {{x[0]}, {c[0]}};
                           },
                           .depends_on_length = true});
}

void captured_is_returned(const Subject& subject) {
  expect_as_loop(subject, {.leaves = [] { return three(); },
                           .step = [](T c, T x, T w) -> StepResult {
                             return {{w[0]}, {w[0], c[0] * x[0]}};
                           },
                           .depends_on_length = true});
}

void one_value_twice(const Subject& subject) {
  expect_as_loop(subject, {.leaves =
                               [] {
                                 return Tensors{leaf64({2}), leaf64({2}, 0.1), leaf64({3, 2}, 0.3), leaf64({2}, 0.7)};
                               },
                           .num_carries = 2,
                           .step = [](T c, T x, T w) -> StepResult {
                             const at::Tensor h = (c[0] * w[0] + c[1] * x[0]).sin();
                             return {{h, h}, {h, h}};
                           }});
}

void views_of_one_value(const Subject& subject) {
  expect_as_loop(subject, {.leaves =
                               [] {
                                 return Tensors{leaf64({2, 2}), leaf64({3, 2, 2}, 0.3), leaf64({2}, 0.7)};
                               },
                           .step = [](T c, T x, T w) -> StepResult {
                             const at::Tensor h = c[0] * w[0] + x[0];
                             return {{h.t()}, {h[0], h.t()[0], h.reshape({4}).slice(0, 1, 3)}};
                           },
                           .any_layout = true});
}

void carries_change_places(const Subject& subject) {
  expect_as_loop(subject, {.leaves =
                               [] {
                                 return Tensors{leaf64({2}), leaf64({2}, 0.1), leaf64({3, 2}, 0.3), leaf64({2}, 0.7)};
                               },
                           .num_carries = 2,
                           .step = [](T c, T x, T w) -> StepResult {
                             return {{c[1], c[0] * x[0]}, {c[0] * w[0]}};
                           }});
}

// One tensor in several places.
void one_tensor_as_two_carries(const Subject& subject) {
  expect_as_loop(subject, {.leaves =
                               [] {
                                 return Tensors{leaf64({2}), leaf64({3, 2}, 0.3), leaf64({2}, 0.7)};
                               },
                           .num_carries = 2,
                           .step = [](T c, T x, T w) -> StepResult {
                             return {{c[0] * w[0], c[1] + x[0]}, {c[0] * c[1]}};
                           },
                           .derive =
                               [](T t) {
                                 return Tensors{t[0], t[0], t[1], t[2]};
                               },
                           .in_pair = false});
}

void one_tensor_everywhere(const Subject& subject) {
  expect_as_loop(subject, {.leaves =
                               [] {
                                 return Tensors{leaf64({3, 3})};
                               },
                           .step = [](T c, T x, T w) -> StepResult {
                             return {{(c[0] * w[0]).sin() + x[0]}, {w[0].mv(x[0])}};
                           },
                           .derive =
                               [](T t) {
                                 return Tensors{t[0], t[0], t[0]};
                               },
                           .in_pair = false});
}

void views_of_one_tensor(const Subject& subject) {
  expect_as_loop(subject, {.leaves =
                               [] {
                                 return Tensors{leaf64({5, 3})};
                               },
                           .step = [](T c, T x, T w) -> StepResult {
                             return {{c[0] * w[0] + x[0]}, {c[0] * x[0]}};
                           },
                           .derive =
                               [](T t) {
                                 return Tensors{t[0][0], t[0].slice(0, 1, 4), t[0][2]};
                               },
                           .in_pair = false});
}

}  // namespace

const std::vector<Check>& value_checks() {
  static const std::vector<Check> kAll{
      {.name = "Length0", .run = of_length<0>, .needs_loop = true},
      {"Length1", of_length<1>},
      {"Length2", of_length<2>},
      {"Length7", of_length<7>},
      {"EveryChoiceOfWhatRequiresGrad", every_choice_of_grad},
      {"CarryGainsGradLate", carry_gains_grad_late, true},
      {"CarryBecomesAConstant", carry_becomes_a_constant},
      {"OutputsWithoutCarry", outputs_without_carry},
      {"NoCarryAtAll", no_carry_at_all, false, true},
      {"NoSlicesAtAll", no_slices_at_all},
      {"Identity", identity},
      {"SliceBecomesCarry", slice_becomes_carry},
      {"CapturedIsReturned", captured_is_returned},
      {"OneValueTwice", one_value_twice},
      {"ViewsOfOneValue", views_of_one_value},
      {"CarriesChangePlaces", carries_change_places, true},
      {"OneTensorAsTwoCarries", one_tensor_as_two_carries},
      {"OneTensorEverywhere", one_tensor_everywhere},
      {"ViewsOfOneTensor", views_of_one_tensor},
  };
  return kAll;
}

}  // namespace diptych::testing
