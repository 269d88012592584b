// What a function of C++ reads besides its arguments, and what becomes of a compiled one when that changes.
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include "diptych/compile/aot.h"
#include "diptych/trace/scope.h"

namespace diptych {
namespace {

double global_scale = 2;

struct Scaled {
  double* scale;
  at::Tensor operator()(const at::Tensor& x) const { return x * *scale; }
};

at::Tensor x() { return at::ones({3}); }

/// Returns what the calls say after `change`, the first two of which were made before; empty if nothing was said.
template <class F, class Change>
std::string said_after(const F& f, const Change& change, int num_calls = 1) {
  f(x());
  change();
  try {
    for (int i = 0; i < num_calls; ++i) f(x());
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

#define EXPECT_SAYS(words, said) EXPECT_NE((said).find(words), std::string::npos) << (said)

TEST(CheckConstants, NamesTheNodeOfANumberThatMoved) {
  double k = 2;
  const auto by_reference = aot_function(
      [&k](const at::Tensor& x) {
        const Scope block("block3");
        return x.sin() * k;
      },
      {.name = "loss"});
  const auto said = said_after(by_reference, [&] { k = 3; });
  EXPECT_SAYS("[check_constants loss] the graph was captured with", said);
  EXPECT_SAYS("aten.mul", said);
  EXPECT_SAYS("block3", said);
  EXPECT_SAYS("2", said);
  EXPECT_SAYS("pass it as an argument, or call clear()", said);
}

TEST(CheckConstants, SeesGlobalsMembersTensorsAndResults) {
  const auto of_global = aot_function([](const at::Tensor& x) { return x + global_scale; });
  EXPECT_SAYS("aten.add", said_after(of_global, [] { global_scale = 5; }));
  double member = 1;
  const auto of_member = aot_function(Scaled{&member});
  EXPECT_SAYS("aten.mul", said_after(of_member, [&] { member = 4; }));
  at::Tensor w = at::full({3}, 2.0);
  const auto of_tensor = aot_function([&w](const at::Tensor& x) { return x * w; });
  EXPECT_SAYS("the tensor that it captures as 'free.0'", said_after(of_tensor, [&] { w = at::full({3}, 3.0); }));
  int64_t size = 2;
  const auto of_size = aot_function([&size](const at::Tensor& x) { return x.slice(0, 0, size); });
  EXPECT_SAYS("aten.slice", said_after(of_size, [&] { size = 3; }));
  bool is_deep = false;
  const auto of_branch = aot_function([&is_deep](const at::Tensor& x) { return is_deep ? x.sin().cos() : x.sin(); });
  EXPECT_FALSE(said_after(of_branch, [&] { is_deep = true; }).empty());
  double returned = 1;
  const auto of_result = aot_function([&returned](const at::Tensor& x) { return std::make_pair(x.sin(), returned); });
  EXPECT_SAYS("other constants in its result", said_after(of_result, [&] { returned = 2; }));
}

TEST(CheckConstants, SeesConstantsOfTheBackwardAlone) {
  double k = 2;
  const auto f = aot_function([&k](const at::Tensor& x) { return x.clamp_min(0).pow(k); });
  const auto call = [&f](const at::Tensor&) { return f(x().requires_grad_()); };
  EXPECT_SAYS("aten.pow", said_after(call, [&] { k = 3; }));
}

TEST(CheckConstants, LooksAgainAtEveryNthCallAndNotBetween) {
  double k = 2;
  const AotOptions options{.check_constants = 5};
  const auto f = aot_function(Scaled{&k}, options);
  f(x()), f(x());
  EXPECT_EQ(said_after(
                f, [&] { k = 3; }, /*num_calls=*/2),
            "");  // the third to the fifth
  EXPECT_THROW(f(x()), UserError);
  const auto never = aot_function(Scaled{&k}, {.check_constants = 0});
  EXPECT_EQ(said_after(
                never, [&] { k = 4; }, 20),
            "");
}

TEST(CheckConstants, ClearForgetsAndWhatDoesNotMovePasses) {
  double k = 2;
  auto f = aot_function(Scaled{&k});
  EXPECT_FALSE(said_after(f, [&] { k = 3; }).empty());
  f.clear();
  EXPECT_EQ(said_after(
                f, [] {}, 5),
            "");
  EXPECT_EQ(f(x())[0].item<double>(), 3);
  const at::Tensor w = at::rand({3});
  const auto same = aot_function([&](const at::Tensor& x) { return x * w + at::rand({3}); });
  EXPECT_EQ(said_after(
                same, [] {}, 3),
            "");
}

TEST(CheckConstants, OfDynamicSizesAndOfValuesThatAreAskedFor) {
  double k = 2;
  const auto sized = aot_function(Scaled{&k}, {.dynamic = true});
  for (const int64_t n : {3, 5, 7}) sized(at::ones({n}));
  EXPECT_EQ(said_after(
                sized, [] {}, 3),
            "");
  const auto asks = aot_function([&k](const at::Tensor& x) { return x.sum().item<double>() > 0 ? x * k : x; });
  EXPECT_EQ(said_after(
                asks, [] {}, 3),
            "");
  asks(-x());
  k = 3;
  const auto moved = aot_function([&k](const at::Tensor& x) { return x.sum().item<double>() > 0 ? x * k : x; });
  EXPECT_EQ(said_after(moved, [&] { k = 4; }), "") << "which docs/limits.md names";
}

}  // namespace
}  // namespace diptych
