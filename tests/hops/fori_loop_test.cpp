// An operator that is not the library's: a loop over numbers, made of a scan. What it takes to have it checked by the
// generic set stands at the end.
#include "hops/subject.h"

namespace diptych::testing {
namespace {

/// Returns the carry after carry = f(i, carry) for i from `begin` to `end` - 1.
template <class F, class Carry>
Carry fori_loop(int64_t begin, int64_t end, F&& f, const Carry& init) {
  const auto step = [&](const Carry& carry, const at::Tensor& i) { return std::pair(f(i, carry), Tensors()); };
  return scan(step, init, torch::arange(begin, std::max(begin, end))).first;
}

TEST(ForiLoop, CountsFromTheBeginningToTheEnd) {
  const auto power = [](int64_t end) {
    return fori_loop(
        1, end, [](const at::Tensor& i, const at::Tensor& c) { return c * i; }, torch::ones({}));
  };
  EXPECT_EQ(power(6).item<float>(), 120);
  EXPECT_EQ(power(1).item<float>(), 1);
  EXPECT_EQ(power(-3).item<float>(), 1);
}

const bool kForiLoopAdded = add_generic_set(
    {.name = "fori_loop",
     .run = [](const Step& step, const Tensors& init, const Tensors& xs, int64_t length) -> StepResult {
       const auto body = [&](const at::Tensor& i, const Tensors& carry) {
         Tensors slices;
         for (const at::Tensor& x : xs) slices.push_back(x.index_select(0, i.reshape({1})).squeeze(0));
         return step(carry, slices).first;
       };
       return {fori_loop(0, length, body, init), {}};
     },
     .reference = [](const Step& step, const Tensors& init, const Tensors& xs, int64_t length) -> StepResult {
       return {written_out(step, init, xs, length).first, {}};
     },
     .has_outputs = false});

}  // namespace
}  // namespace diptych::testing
