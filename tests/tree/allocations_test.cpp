// The check of a call against a stored structure allocates nothing. A program of its own, as it replaces operator new.
#include <gtest/gtest.h>
#include <torch/nn.h>
#include <torch/types.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "diptych/tree/flatten.h"
#include "diptych/tree/module.h"

namespace {
std::atomic<size_t> allocations{0};
}

[[gnu::noinline]] void* operator new(size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size != 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace diptych {

using namespace detail;
namespace {

struct Block {
  at::Tensor q, k;
  std::string activation = "a name that is too long to be stored inside the string";
  std::map<std::string, at::Tensor> named{{"w", {}}, {"b", {}}};
  std::unordered_map<int, at::Tensor> numbered{{5, {}}, {3, {}}};
  std::optional<at::Tensor> bias;
  DIPTYCH_FIELDS(q, k, activation, named, numbered, bias)
};

template <class Function>
size_t allocations_of(Function&& function) {
  const size_t before = allocations;
  function();
  return allocations - before;
}

TEST(Allocations, AreCounted) {
  EXPECT_GE(allocations_of([] { flatten(Block()); }), 1u);
}

TEST(Allocations, AreNotMadeByMatchingOrHashing) {
  const auto net = std::make_shared<torch::nn::SequentialImpl>(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4));
  const auto value = std::make_tuple(std::vector<Block>(3), net, at::Scalar(3), c10::Device("cpu"));
  const TreeSpec spec = flatten(value).spec;
  bool matched = false;
  c10::SmallVector<const at::Tensor*, 64> addresses;
  EXPECT_EQ(allocations_of([&] { matched = flatten_if_matches(spec, value, addresses); }), 0u);
  EXPECT_TRUE(matched);
  EXPECT_EQ(addresses.size(), spec.num_tensors());
  uint64_t hash = 0;
  EXPECT_EQ(allocations_of([&] { hash = structure_hash(value); }), 0u);
  EXPECT_EQ(hash, spec.hash());
}

}  // namespace
}  // namespace diptych
