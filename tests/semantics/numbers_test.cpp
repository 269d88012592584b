// Numbers as operands, in the form in which bindings of other languages hand them to operators: tensors of no dimension
// that count as numbers in type promotion.
#include "testing/eager_check.h"

namespace diptych::testing {

using namespace detail;
namespace {

at::Tensor number(const at::Scalar& value) {
  at::Tensor tensor = at::scalar_to_tensor(value);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

Tensors leaves(at::ScalarType dtype) {
  return {torch::arange(6.0).mul(0.7).cos().reshape({2, 3}).to(dtype).requires_grad_()};
}

TEST(Numbers, AreOperandsAndPromoteAsNumbers) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf}) {
    expect_as_eager([dtype] { return leaves(dtype); },
                    [](const Tensors& t) -> Tensors {
                      return {at::mul(t[0], number(2)), at::div(number(1.5), t[0]), at::add(number(true), t[0]),
                              at::where(t[0] > 0, t[0], number(0.25))};
                    });
  }
}

TEST(Numbers, AreDifferentiatedPastToAnyOrder) {
  expect_gradients_right(leaves(at::kDouble), [](const Tensors& t) -> Tensors {
    return {at::mul(at::pow(t[0], number(3)), number(2)).sum()};
  });
}

// A graph that is run on stand-ins, as the body of a scan is when its gradient is differentiated, has them too.
TEST(Numbers, AreOperandsInBodies) {
  const auto loop = [](const Tensors& t) -> Tensors {
    const auto step = [](const at::Tensor& carry, const at::Tensor& x) {
      return std::pair(at::tanh(at::mul(carry, number(2)) + x), at::mul(x, carry));
    };
    const auto [carry, ys] = scan(step, t[0][0], t[0]);
    return {carry.sum() + ys.square().sum()};
  };
  expect_gradients_right(leaves(at::kDouble), loop);
  expect_derivatives_right(leaves(at::kDouble), loop);
}

// A stand-in has no memory to read, and none that LibTorch could fill with numbers.
TEST(Numbers, OfStandInsAreNotToBeHad) {
  const auto read = [](const auto& function) { return [function] { (void)aot_function(function)(torch::ones({3})); }; };
  const char* const words = "[capture] the function reads or writes the memory of a tensor";
  expect_error<UserError>(read([](const at::Tensor& x) { return x + (x.data_ptr() != nullptr); }), words);
  expect_error<UserError>(read([](const at::Tensor& x) { return x + (x.sin().mutable_data_ptr() != nullptr); }), words);
  expect_error<UserError>(read([](const at::Tensor& x) { return x + *x.view({3, 1}).data_ptr<float>(); }), words);
  expect_error<UserError>(read([](const at::Tensor& x) { return x + at::tensor({1.0, 2.0, 3.0}); }), words);
  const auto in_body = [](const at::Tensor& x) {
    return map([](const at::Tensor& one) { return one * at::tensor({2.0}); }, x);
  };
  expect_error<UserError>([&] { (void)in_body(torch::ones({3, 1})); }, words);
  const auto made = [](const at::Tensor& x) { return x + torch::tensor({1.0, 2.0, 3.0}); };
  EXPECT_TRUE(aot_function(made)(torch::ones({3})).equal(made(torch::ones({3}))));
}

}  // namespace
}  // namespace diptych::testing
