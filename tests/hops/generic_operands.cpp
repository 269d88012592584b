// The generic set: which dtypes, shapes and layouts operands may have.
#include "hops/generic_set.h"

namespace diptych::testing {
namespace {

using T = const Tensors&;

// Dtypes.
void integers_and_booleans(const Subject& subject) {
  expect_as_loop(subject, {.leaves =
                               [] {
                                 return Tensors{leaf64({2}),         torch::zeros({2}, torch::kLong),
                                                torch::tensor(true), leaf64({3, 2}, 0.3),
                                                torch::arange(3),    leaf64({2}, 0.7)};
                               },
                           .num_carries = 3,
                           .num_slices = 2,
                           .step = [](T c, T x, T w) -> StepResult {
                             const at::Tensor h = torch::where(c[2], c[0] * w[0], x[0] - c[0]);
                             return {{h, c[1] + x[1], c[2].logical_not()}, {c[1], c[2], h, x[1] * 2}};
                           }});
}

void only_integers(const Subject& subject) {
  expect_as_loop(subject, {.leaves =
                               [] {
                                 return Tensors{torch::zeros({2}, torch::kLong), torch::arange(6).reshape({3, 2})};
                               },
                           .step = [](T c, T x, T) -> StepResult {
                             return {{c[0] * 3 + x[0]}, {c[0] > x[0]}};
                           }});
}

void mixed_floats(const Subject& subject) {
  expect_as_loop(subject, {.leaves =
                               [] {
                                 return Tensors{leaf({2}),
                                                leaf({2}, 0.2).detach().to(torch::kBFloat16).requires_grad_(),
                                                leaf({3, 2}, 0.3), leaf64({2}, 0.7)};
                               },
                           .num_carries = 2,
                           .step = [](T c, T x, T w) -> StepResult {
                             const at::Tensor wide = c[0] * w[0] + x[0];
                             const at::Tensor narrow = (c[1] * 0.5 + c[0]).to(torch::kBFloat16);
                             return {{wide.to(torch::kFloat), narrow}, {wide, narrow.to(torch::kFloat)}};
                           },
                           .tolerance = 2e-2});
}

void complex_carry(const Subject& subject) {
  expect_as_loop(subject, {.leaves =
                               [] {
                                 return Tensors{torch::complex(values64({2}), values64({2}, 0.5)).requires_grad_(),
                                                leaf64({3, 2}, 0.3), leaf64({2}, 0.7)};
                               },
                           .step = [](T c, T x, T w) -> StepResult {
                             return {{c[0] * w[0] + x[0]}, {at::abs(c[0])}};
                           }});
}

// Shapes and layouts.
void scalars(const Subject& subject) {
  expect_as_loop(subject, {.leaves =
                               [] {
                                 return Tensors{leaf64({}), leaf64({3}, 0.3), leaf64({}, 0.7)};
                               },
                           .step = [](T c, T x, T w) -> StepResult {
                             return {{c[0] * w[0] + x[0]}, {c[0].sin()}};
                           }});
}

void no_elements(const Subject& subject) {
  expect_as_loop(subject, {.leaves =
                               [] {
                                 return Tensors{leaf64({0, 2}), leaf64({3, 0, 2}), leaf64({2, 2}, 0.7)};
                               },
                           .step = [](T c, T x, T w) -> StepResult {
                             const at::Tensor h = c[0].mm(w[0]) + x[0];
                             return {{h}, {h.sum(0) + w[0][0]}};
                           }});
}

void strided_operands(const Subject& subject) {
  expect_as_loop(subject, {.leaves =
                               [] {
                                 return Tensors{leaf64({3, 2}), leaf64({2, 3, 3}, 0.3), leaf64({3, 4}, 0.7)};
                               },
                           .step = [](T c, T x, T w) -> StepResult {
                             const at::Tensor h = (c[0] * w[0] + x[0]).sin();
                             return {{h}, {h.reshape({6}) * 2}};
                           },
                           .derive =
                               [](T t) {
                                 return Tensors{t[0].t(), t[1].permute({2, 0, 1}), t[2].slice(1, 0, 4, 2).t()};
                               },
                           .any_layout = true});
}

void expanded_operands(const Subject& subject) {
  expect_as_loop(subject, {.leaves =
                               [] {
                                 return Tensors{leaf64({1, 3}), leaf64({2, 3}, 0.3), leaf64({}, 0.7)};
                               },
                           .step = [](T c, T x, T w) -> StepResult {
                             const at::Tensor h = (c[0] * w[0] + x[0]).sin();
                             return {{h}, {h * x[0]}};
                           },
                           .derive =
                               [](T t) {
                                 return Tensors{t[0].expand({2, 3}), t[1].expand({3, 2, 3}), t[2].expand({2, 3})};
                               }});
}

void channels_last(const Subject& subject) {
  expect_as_loop(subject,
                 {.leaves =
                      [] {
                        return Tensors{leaf64({1, 2, 3, 3}), leaf64({3, 1, 2, 3, 3}, 0.3), leaf64({2, 2, 3, 3})};
                      },
                  .step = [](T c, T x, T w) -> StepResult {
                    const at::Tensor h = torch::conv2d(c[0] + x[0], w[0], {}, 1, 1).tanh();
                    return {{h}, {h.contiguous().view({2, 9}).sum(1)}};
                  },
                  .derive =
                      [](T t) {
                        const auto format = at::MemoryFormat::ChannelsLast;
                        return Tensors{t[0].contiguous(format), t[1].contiguous(), t[2].contiguous(format)};
                      },
                  .any_layout = true});
}

}  // namespace

const std::vector<Check>& operand_checks() {
  static const std::vector<Check> kAll{
      {"IntegersAndBooleans", integers_and_booleans},
      {"OnlyIntegers", only_integers},
      {"MixedFloats", mixed_floats},
      {"ComplexCarry", complex_carry},
      {"Scalars", scalars},
      {"NoElements", no_elements},
      {"StridedOperands", strided_operands},
      {"ExpandedOperands", expanded_operands},
      {"ChannelsLast", channels_last},
  };
  return kAll;
}

}  // namespace diptych::testing
