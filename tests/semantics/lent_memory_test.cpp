// Memory that is lent to tensors, by from_blob or a library of arrays: known under several storages, or kept by nobody.
#include "testing/values.h"

namespace diptych::testing {
namespace {

// Two tensors over one buffer, the second `apart` elements on; the buffer lives as long as the first.
Inputs two_storages(int64_t apart) {
  return {[] { return Tensors{values({6})}; },
          [apart](const Tensors& leaves) {
            const at::Tensor memory = leaves[0].clone();
            const auto keep = [memory](void*) {};
            return Tensors{at::from_blob(memory.data_ptr(), {4}, keep, at::kFloat),
                           at::from_blob(memory.data_ptr<float>() + apart, {6 - apart}, keep, at::kFloat)};
          }};
}

TEST(LentMemory, MemoryUnderTwoStoragesIsMerged) {
  for (const int64_t apart : {0, 2, 5}) {
    expect_as_eager(two_storages(apart), [](const Tensors& t) -> Tensors {
      t[0].mul_(10);
      return {t[1] * 1, t[1].view({-1, 1}), t[0].narrow(0, 1, 2)};
    });
    expect_as_eager(two_storages(apart), [](const Tensors& t) -> Tensors {
      t[1].add_(1);
      t[0].narrow(0, 1, 2).fill_(3);
      return {t[0].clone(), t[1].sum()};
    });
  }
}

// Each of the storages holds the view that is returned.
TEST(LentMemory, AViewLiesInTheStorageThatItWasTakenOf) {
  const auto all_of = [](const Tensors& leaves) {
    const at::Tensor memory = leaves[0].clone();
    return Tensors{memory, at::from_blob(
                               memory.data_ptr(), {6}, [memory](void*) {}, at::kFloat)};
  };
  CheckOptions options;
  options.backward = false;
  const Inputs inputs{[] { return Tensors{values({6})}; }, all_of};
  expect_as_eager(
      inputs,
      [](const Tensors& t) -> Tensors {
        t[1].mul_(2);
        return {t[1].detach(), t[0].narrow(0, 1, 2), t[1].narrow(0, 1, 2)};
      },
      options);
}

// Eager tells by storages whether operands overlap, and so runs what it would refuse of two views.
TEST(LentMemory, OperandsThatOverlapUnderTwoStorages) {
  const auto column_and = [](at::IntArrayRef sizes) {
    return Inputs{[] {
                    return Tensors{values({1, 2})};
                  },
                  [sizes = sizes.vec()](const Tensors& leaves) {
                    const at::Tensor memory = leaves[0].clone();
                    return Tensors{memory.t(), at::from_blob(
                                                   memory.data_ptr(), sizes, [memory](void*) {}, at::kFloat)};
                  }};
  };
  const auto add = [](const Tensors& t) -> Tensors {
    t[1].add_(t[0]);
    return {t[0] * 1};
  };
  CheckOptions options;
  options.backward = false;
  expect_as_eager(column_and({2, 1}), add, options);
  const Inputs apart = two_storages(1);
  const Tensors in = apart.derive(apart.leaves());
  const auto add_first = [](const at::Tensor& a, const at::Tensor& b) {
    return at::Tensor(a).narrow(0, 0, 3).add_(b.narrow(0, 0, 3)) * 1;
  };
  expect_error<UserError>([&] { (void)aot_function(add_first)(in[0], in[1]); }, "another operand,");
}

TEST(LentMemory, MemoryThatIsSharedLaterIsAnotherCapture) {
  const auto f = aot_function([](const at::Tensor& a, const at::Tensor& b) {
    a.mul_(10);
    return b * 1;
  });
  for (int round = 0; round < 2; ++round) {
    for (const int64_t apart : {5, 0, 2}) {
      const auto inputs = two_storages(apart);
      const Tensors mine = inputs.derive(inputs.leaves()), theirs = inputs.derive(inputs.leaves());
      const at::Tensor got = f(mine[0], mine[1]);
      theirs[0].mul_(10);
      EXPECT_TRUE(at::equal(got, theirs[1])) << apart;
      EXPECT_TRUE(at::equal(mine[0], theirs[0])) << apart;
    }
  }
  EXPECT_NE(f.stats().last_miss.find("size"), std::string::npos) << f.stats().last_miss;
}

TEST(LentMemory, GuardSaysWhoseMemoryIsShared) {
  at::Tensor memory = torch::zeros({8});
  const auto part = [&](int64_t offset) { return at::from_blob(memory.data_ptr<float>() + offset, {4}, at::kFloat); };
  const auto f = aot_function([](const at::Tensor& a, const at::Tensor& b) {
    a.add_(1);
    return b * 1;
  });
  EXPECT_TRUE(at::equal(f(part(0), part(4)), torch::zeros({4})));
  EXPECT_TRUE(at::equal(f(part(0), part(2)), torch::tensor({2.0F, 2.0F, 0.0F, 0.0F})));
  EXPECT_NE(f.stats().last_miss.find("which other inputs share its memory has changed"), std::string::npos);
  EXPECT_EQ(f.stats().misses, 2U);
}

TEST(LentMemory, MemoryThatCanNotBeMergedIsRefused) {
  std::vector<uint8_t> bytes(32);
  const at::Tensor whole = at::from_blob(bytes.data(), {4}, at::kFloat);
  const at::Tensor off = at::from_blob(bytes.data() + 2, {4}, at::kFloat);
  const at::Tensor ints = at::from_blob(bytes.data(), {4}, at::kInt);
  const auto body = [](const at::Tensor& a, const at::Tensor& b) {
    a.add_(1);
    return b * 1;
  };
  expect_error<UserError>([&] { (void)aot_function(body)(whole, off); }, "share memory, 2 bytes apart");
  expect_error<UserError>([&] { (void)aot_function(body)(whole, ints); }, "share memory under two dtypes");
}

TEST(LentMemory, TensorsThatAreMadeInsideOfLentMemory) {
  const std::vector<float> numbers{1, 2};
  const auto blob = [data = const_cast<float*>(numbers.data())] { return at::from_blob(data, {2}, at::kFloat); };
  expect_error<UserError>(
      [&] { (void)aot_function([&](const at::Tensor& x) { return x + blob(); })(torch::ones({2})); },
      "nothing keeps that memory alive");
  const at::Tensor outside = blob();
  const auto f = aot_function([outside](const at::Tensor& x) { return x + outside; });
  EXPECT_TRUE(at::equal(f(torch::ones({2})), torch::tensor({2.0F, 3.0F})));
}

}  // namespace
}  // namespace diptych::testing
