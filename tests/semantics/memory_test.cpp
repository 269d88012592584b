// Memory that is known under several storages, writes to elements that lie in one place, lazy conjugates, and modes of
// kernels.
#include <ATen/Context.h>

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
  expect_error<UserError>([&] { (void)aot_function(add_first)(in[0], in[1]); }, "another operand sees a part of");
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
      "nothing keeps that memory");
  const at::Tensor outside = blob();
  const auto f = aot_function([outside](const at::Tensor& x) { return x + outside; });
  EXPECT_TRUE(at::equal(f(torch::ones({2})), torch::tensor({2.0F, 3.0F})));
}

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

TEST(Mutation, WritesThroughConjugates) {
  const auto complex_values = [] { return Tensors{at::view_as_complex(values({3, 2}))}; };
  expect_as_eager(complex_values, [](const Tensors& t) -> Tensors {
    const at::Tensor y = t[0] * 1;
    y.conj().mul_(c10::complex<double>(0, 2));
    at::imag(y).add_(1);
    return {y};
  });
  expect_as_eager(complex_values, [](const Tensors& t) -> Tensors {
    t[0].conj().narrow(0, 1, 2).add_(1);
    return {at::real(t[0]) + at::imag(t[0])};
  });
}

TEST(KernelModes, ModesOfKernels) {
  const auto f = aot_function([](const at::Tensor& x) { return torch::empty({3}) + x; });
  f(torch::ones({3}));
  auto& context = at::globalContext();
  context.setDeterministicAlgorithms(true, false);
  context.setDeterministicFillUninitializedMemory(true);
  EXPECT_TRUE(f(torch::ones({3})).isnan().all().item<bool>());
  EXPECT_NE(f.stats().last_miss.find("deterministic algorithms was off, is on"), std::string::npos);
  context.setDeterministicAlgorithms(false, false);
}

TEST(RequiresGrad, ViewThatIsMadeALeaf) {
  const auto two = [] { return Tensors{values({2, 2})}; };
  expect_as_eager(two, [](const Tensors& t) -> Tensors {
    at::Tensor v = t[0].view({-1});
    v.requires_grad_();
    return {v};
  });
  expect_as_eager(two, [](const Tensors& t) -> Tensors {
    const at::Tensor y = t[0] * 2;
    at::Tensor v = y.select(0, 0);
    v.requires_grad_();
    return {y, v};
  });
}

}  // namespace
}  // namespace diptych::testing
