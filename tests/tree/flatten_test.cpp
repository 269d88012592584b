// flatten, unflatten and map_tensors: round trips, sharing, and errors.
#include "diptych/tree/flatten.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <random>

#include "diptych/base/error.h"
#include "testing/expect_error.h"

namespace diptych {
namespace {

using testing::message_of;

/// A recursive struct with something of everything in it.
struct Node {
  at::Tensor tensor;
  int64_t number = 0;
  std::vector<Node> children;
  std::optional<at::Tensor> maybe;
  std::map<std::string, at::Tensor> named;
  std::shared_ptr<Node> other;
  DIPTYCH_FIELDS(tensor, number, children, maybe, named, other)
};

Node random_node(std::mt19937& random, int depth) {
  const auto roll = [&](int n) { return static_cast<int>(random() % n); };
  Node node;
  if (roll(8) != 0) node.tensor = at::rand({2});
  node.number = roll(3);
  if (roll(2) == 0) node.maybe = at::rand({1});
  for (int i = roll(3); i > 0; --i) node.named["k" + std::to_string(roll(100))] = at::rand({1});
  if (depth == 0) return node;
  for (int i = roll(4); i > 0; --i) node.children.push_back(random_node(random, depth - 1));
  if (roll(3) == 0) node.other = std::make_shared<Node>(random_node(random, depth - 1));
  return node;
}

bool same_handles(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](auto& x, auto& y) { return x.is_same(y); });
}

TEST(Flatten, ListsTensorsInOrderWithTheirPaths) {
  const auto a = at::rand({1}), b = at::rand({2}), c = at::rand({3});
  const auto flat = flatten(std::make_tuple(a, std::map<std::string, at::Tensor>{{"z", c}, {"y", b}}), "x");
  EXPECT_TRUE(same_handles(flat.tensors, {a, b, c}));
  EXPECT_EQ(flat.spec.tensor_paths(), (std::vector<std::string>{"x.0", "x.1.y", "x.1.z"}));
  EXPECT_EQ(flat.spec.num_tensors(), 3u);
  EXPECT_FALSE(flat.spec.is_module_tensor(0));
}

TEST(Flatten, KeepsDuplicatesAndUndefinedTensors) {
  const auto a = at::rand({1});
  const auto flat = flatten(std::vector<at::Tensor>{a, at::Tensor(), a});
  ASSERT_EQ(flat.tensors.size(), 3u);
  EXPECT_TRUE(flat.tensors[0].is_same(flat.tensors[2]));
  EXPECT_FALSE(flat.tensors[1].defined());
}

TEST(Flatten, OfNothingIsEmpty) {
  EXPECT_TRUE(flatten(std::vector<at::Tensor>()).tensors.empty());
  EXPECT_TRUE(flatten(std::tuple<>()).tensors.empty());
  EXPECT_EQ(flatten(3).spec.num_tensors(), 0u);
}

TEST(Flatten, RoundTripsRandomNestedValues) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    const Node node = random_node(random, trial % 4);
    const Flattened flat = flatten(node);
    std::vector<at::Tensor> fresh;
    for (size_t i = 0; i < flat.tensors.size(); ++i) fresh.push_back(at::full({1}, static_cast<double>(i)));
    const Node filled = unflatten(node, fresh);
    const Flattened again = flatten(filled);
    EXPECT_TRUE(same_handles(again.tensors, fresh)) << "trial " << trial;
    EXPECT_EQ(again.spec, flat.spec) << first_difference(flat.spec, again.spec).value_or("");
    EXPECT_EQ(again.spec.tensor_paths(), flat.spec.tensor_paths());
    EXPECT_TRUE(same_handles(flatten(node).tensors, flat.tensors)) << "the example changed in trial " << trial;
  }
}

TEST(Unflatten, LeavesSharedObjectsOfTheExampleAlone) {
  const auto old = at::rand({1}), fresh = at::rand({1});
  const auto pointer = std::make_shared<std::vector<at::Tensor>>(1, old);
  const auto filled = unflatten(pointer, {fresh});
  EXPECT_TRUE((*filled)[0].is_same(fresh));
  EXPECT_TRUE((*pointer)[0].is_same(old));
  const c10::List<at::Tensor> list({old});
  const auto filled_list = unflatten(list, {fresh});
  EXPECT_TRUE(filled_list.get(0).is_same(fresh));
  EXPECT_TRUE(list.get(0).is_same(old));
}

TEST(Unflatten, RefusesAWrongNumberOfTensors) {
  const std::vector<at::Tensor> example(2);
  const auto x = at::rand({1});
  EXPECT_EQ(
      message_of([&] { unflatten(example, {x}, "grads"); }),
      "[unflatten] got 1 tensors, expected more: none is left for 'grads.1'; pass one tensor per leaf of the example");
  EXPECT_EQ(message_of([&] {
              unflatten(example, {x, x, x});
            }),
            "[unflatten] got 3 tensors, expected 2; pass one tensor per leaf of the example");
}

TEST(MapTensors, CallsTheFunctionInOrderAndKeepsTheRest) {
  const auto value = std::make_tuple(at::ones({1}), 7, std::vector<at::Tensor>{at::ones({1}), at::ones({1})});
  int calls = 0;
  const auto mapped = map_tensors(value, [&](const at::Tensor& tensor) { return tensor * ++calls; });
  EXPECT_EQ(std::get<0>(mapped).item<float>(), 1);
  EXPECT_EQ(std::get<1>(mapped), 7);
  EXPECT_EQ(std::get<2>(mapped)[1].item<float>(), 3);
  EXPECT_EQ(std::get<2>(value)[1].item<float>(), 1);
}

TEST(MapTensors, GivesThePathWhereAskedFor) {
  std::vector<std::string> paths;
  map_tensors(
      std::make_pair(at::Tensor(), at::Tensor()),
      [&](const Path& path, const at::Tensor& tensor) {
        paths.push_back(path.str());
        return tensor;
      },
      "xs");
  EXPECT_EQ(paths, (std::vector<std::string>{"xs.0", "xs.1"}));
}

}  // namespace
}  // namespace diptych
