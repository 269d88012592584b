// Modules: names and order as torch gives them, identity, training flags.
#include "diptych/tree/module.h"

#include <gtest/gtest.h>
#include <torch/nn.h>
#include <torch/types.h>

#include "diptych/base/error.h"
#include "diptych/tree/flatten.h"
#include "testing/expect_error.h"

namespace diptych {

using namespace detail;
namespace {

using testing::message_of;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    scale = register_parameter("scale", torch::ones({3}));
    register_parameter("absent", torch::Tensor());
    norm = register_module("norm", torch::nn::BatchNorm1d(3));
    layers = register_module("layers", torch::nn::Sequential(torch::nn::Linear(3, 3), torch::nn::Dropout(0.5)));
    steps = register_buffer("steps", torch::zeros({1}));
    tied = register_module("tied", layers.ptr());
  }
  at::Tensor scale, steps;
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Sequential layers{nullptr};
  std::shared_ptr<torch::nn::Module> tied;
};
TORCH_MODULE(Net);

std::vector<std::pair<std::string, at::Tensor>> torch_tensors(const torch::nn::Module& module) {
  std::vector<std::pair<std::string, at::Tensor>> named;
  for (const auto& item : module.named_parameters()) named.emplace_back(item.key(), item.value());
  for (const auto& item : module.named_buffers()) named.emplace_back(item.key(), item.value());
  return named;
}

TEST(Module, IsVisitedAsTorchNamesItsParametersAndBuffers) {
  const Net net;
  const auto expected = torch_tensors(*net);
  const auto flat = flatten(net, "net");
  ASSERT_EQ(flat.tensors.size(), expected.size());
  ASSERT_GE(expected.size(), 11u);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(flat.spec.tensor_path(i), "net." + expected[i].first);
    EXPECT_TRUE(flat.tensors[i].is_same(expected[i].second)) << expected[i].first;
    EXPECT_TRUE(flat.spec.is_module_tensor(i));
  }
}

TEST(Module, IsVisitedAlikeByHolderPointerAndReference) {
  const Net net;
  const std::shared_ptr<NetImpl> pointer = net.ptr();
  const std::shared_ptr<torch::nn::Module> base = pointer;
  EXPECT_EQ(flatten(net).spec, flatten(pointer).spec);
  EXPECT_EQ(flatten(base).spec, flatten(pointer).spec);
  EXPECT_EQ(flatten(*net).spec.tensor_paths(), flatten(net).spec.tensor_paths());
}

TEST(Module, IsAFieldLikeAnyOther) {
  struct Model {
    torch::nn::Linear linear{2, 2};
    at::Tensor temperature;
    DIPTYCH_FIELDS(linear, temperature)
  };
  const Model model;
  EXPECT_EQ(flatten(model, "m").spec.tensor_paths(),
            (std::vector<std::string>{"m.linear.weight", "m.linear.bias", "m.temperature"}));
}

TEST(Module, ReportsTrainingFlagsOfSubmodules) {
  Net net;
  const TreeSpec training = flatten(net, "net").spec;
  net->norm->eval();
  EXPECT_FALSE(matches(training, net));
  EXPECT_EQ(first_difference(training, flatten(net, "net").spec), "net.norm.training: expected true, got false");
  net->train();
  EXPECT_TRUE(matches(training, net));
}

TEST(Module, IsNotTakenForAnotherOfTheSameShape) {
  const torch::nn::Dropout half(0.5), tenth(0.1);
  const TreeSpec spec = flatten(half, "drop").spec;
  EXPECT_TRUE(matches(spec, half));
  EXPECT_FALSE(matches(spec, tenth));
  EXPECT_EQ(first_difference(spec, flatten(tenth, "drop").spec),
            "drop: expected the module of the earlier call, got another one");
}

TEST(Module, IsNotTakenForALaterOneAtTheSameAddress) {
  // Memory with a separate control block, so that the next module is made exactly where the first one was.
  alignas(torch::nn::LinearImpl) std::byte memory[sizeof(torch::nn::LinearImpl)];
  const auto make = [&] {
    return std::shared_ptr<torch::nn::LinearImpl>(new (memory) torch::nn::LinearImpl(2, 2),
                                                  [](torch::nn::LinearImpl* module) { std::destroy_at(module); });
  };
  auto module = make();
  const TreeSpec spec = flatten(module).spec;
  EXPECT_TRUE(matches(spec, module));
  module.reset();
  module = make();
  EXPECT_FALSE(matches(spec, module));
  EXPECT_FALSE(spec == flatten(module).spec);
}

TEST(Module, ThatIsAbsentIsStructure) {
  const torch::nn::Linear absent(nullptr), present(2, 2);
  EXPECT_EQ(flatten(absent).spec.num_tensors(), 0u);
  EXPECT_EQ(first_difference(flatten(absent, "l").spec, flatten(present, "l").spec),
            "l: expected a null pointer, got a pointer to an object");
}

TEST(Module, NoticesAParameterThatIsRegisteredLater) {
  Net net;
  const TreeSpec spec = flatten(net, "net").spec;
  net->register_parameter("late", torch::ones({1}));
  EXPECT_EQ(first_difference(spec, flatten(net, "net").spec),
            "net: expected a module with 1 parameter of its own, got a module with 2 parameters of its own");
}

TEST(Module, CanNotBeUnflattened) {
  const auto value = std::make_tuple(torch::nn::Linear(1, 1));
  EXPECT_EQ(message_of([&] { unflatten(value, flatten(value).tensors, "args"); }),
            "[unflatten] got a module, at 'args.0.weight', expected a value whose tensors can be replaced, but a "
            "module holds its own handles to its parameters; put the tensors into a struct, vector or map");
}

}  // namespace
}  // namespace diptych
