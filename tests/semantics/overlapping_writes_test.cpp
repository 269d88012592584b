// Writes to tensors several of whose elements lie in one place.
#include "testing/values.h"

namespace diptych::testing {
namespace {

const auto kThree = [] { return Tensors{values({3})}; };

TEST(OverlappingWrites, FillsOfExpandedTensors) {
  expect_as_eager(kThree, [](const Tensors& t) -> Tensors {
    const at::Tensor y = t[0] * 1;
    y.expand({3, 3}).fill_(2);
    return {y, y.expand({2, 3}) + 1};
  });
  expect_as_eager(kThree, [](const Tensors& t) -> Tensors {
    const at::Tensor wide = t[0].expand({3, 3});
    wide.select(0, 1).mul_(3);
    wide.narrow(1, 0, 2).zero_();
    return {wide.clone(), t[0] + 1};
  });
  expect_as_eager([] { return Tensors{torch::ones({3}, at::kBool)}; },
                  [](const Tensors& t) -> Tensors {
                    t[0].expand({2, 3}).fill_(false);
                    return {t[0].logical_not()};
                  });
}

TEST(OverlappingWrites, WindowsThatLieApartAreWritten) {
  expect_as_eager([] { return Tensors{values({7})}; },
                  [](const Tensors& t) -> Tensors {
                    t[0].unfold(0, 2, 3).mul_(2);
                    t[0].unfold(0, 3, 1).select(0, 1).add_(1);
                    t[0].as_strided({3, 2}, {1, 1}).fill_(4);
                    return {t[0] + 0};
                  });
}

TEST(OverlappingWrites, GradientsThroughWritesToElementsOfExpandedTensors) {
  expect_as_eager([] { return Tensors{leaf({3})}; },
                  [](const Tensors& t) -> Tensors {
                    const at::Tensor y = t[0] * 2;
                    y.expand({3, 3}).select(0, 1).mul_(3);
                    return {(y * y).sum()};
                  });
}

// Eager's own error, and the argument is as it was.
void expect_eagers_error(const Function& body) {
  const at::Tensor x = torch::ones({3});
  std::string wanted;
  try {
    body({x.clone()});
  } catch (const c10::Error& error) {
    wanted = error.what_without_backtrace();
  }
  ASSERT_NE(wanted.find("single memory location"), std::string::npos);
  expect_error<c10::Error>([&] { (void)aot_function([&](const at::Tensor& t) { return body({t}); })(x); }, wanted);
  EXPECT_TRUE(at::equal(x, torch::ones({3})));
}

TEST(OverlappingWrites, WritesThatEagerRefusesAreItsErrors) {
  expect_eagers_error([](const Tensors& t) -> Tensors { return {t[0].expand({3, 3}).add_(1)}; });
  expect_eagers_error([](const Tensors& t) -> Tensors {
    return {(t[0] * 1).expand({3, 3}).copy_(torch::ones({3, 3}))};
  });
  expect_eagers_error([](const Tensors& t) -> Tensors { return {t[0].expand({3, 3}).fill_(2).mul_(2)}; });
  expect_eagers_error([](const Tensors& t) -> Tensors {
    at::Tensor out = (t[0] * 1).expand({3, 3});
    return {at::add_out(out, t[0], t[0])};
  });
  expect_eagers_error([](const Tensors& t) -> Tensors {
    const at::Tensor y = t[0] * 1;
    return {y.narrow(0, 1, 2).add_(y.narrow(0, 0, 2))};
  });
}

}  // namespace
}  // namespace diptych::testing
