// Parameters beside a pair: they come back, fit the pair or are named, and nothing is written that is only half right.
#include "diptych/pair/pair_parameters.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <unistd.h>

#include <filesystem>

#include "diptych/diptych.h"
#include "testing/expect_error.h"

namespace diptych::testing {
namespace {

namespace fs = std::filesystem;
using diptych::NamedTensors;

struct Params {
  at::Tensor bias, weight;
  DIPTYCH_FIELDS(bias, weight)
};

at::Tensor loss(const Params& params, const at::Tensor& x) {
  return at::linear(x, params.weight, params.bias).square().mean();
}

class PairParameters : public ::testing::Test {
 protected:
  void SetUp() override {
    folder = fs::temp_directory_path() / ("diptych_parameters_" + std::to_string(::getpid()));
    fs::create_directories(folder);
    path = (folder / "run").string();
    const Params params{torch::randn({2}).requires_grad_(), torch::randn({2, 3}).requires_grad_()};
    pair = capture_with({.argument_names = {"params", "x"}}, loss, params, torch::ones({4, 3}));
    tensors = {{"params.bias", params.bias},
               {"params.weight", params.weight},
               {"momentum.bias", torch::zeros({2})},
               {"momentum.weight", torch::zeros({2, 3})},
               {"step", torch::tensor(int64_t{5})}};
  }
  void TearDown() override { fs::remove_all(folder); }
  std::string refusal(const NamedTensors& given, const std::string& argument = "params",
                      const std::string& prefix = "params.") const {
    return message_of([&] { tensors_of_argument(pair.signature, argument, given, prefix); });
  }

  fs::path folder;
  std::string path;
  Pair pair;
  NamedTensors tensors;
};

TEST_F(PairParameters, ComeBackWithTheirPair) {
  save_with_tensors(pair, tensors, path);
  const auto [loaded, read] = load_with_tensors(path);
  EXPECT_EQ(mismatch(loaded.signature, pair.signature), std::nullopt);
  ASSERT_EQ(read.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) EXPECT_TRUE(read.at(name).equal(tensor)) << name;
  const auto parameters = tensors_of_argument(loaded.signature, "params", read, "params.");
  ASSERT_EQ(parameters.size(), 2U);
  EXPECT_TRUE(parameters[0].is_same(read.at("params.bias")));
  EXPECT_TRUE(parameters[1].is_same(read.at("params.weight")));
  const auto momenta = tensors_of_argument(loaded.signature, "params", read, "momentum.");
  EXPECT_TRUE(momenta[1].is_same(read.at("momentum.weight")));
}

TEST_F(PairParameters, MayHaveNoPrefixAndBeOneTensor) {
  const NamedTensors bare{{"bias", torch::ones({2})}, {"weight", torch::ones({2, 3})}};
  EXPECT_TRUE(tensors_of_argument(pair.signature, "params", bare)[1].is_same(bare.at("weight")));
  const NamedTensors data{{"x", torch::ones({4, 3})}};
  EXPECT_TRUE(tensors_of_argument(pair.signature, "x", data)[0].is_same(data.at("x")));
}

TEST_F(PairParameters, AreNamedWhereTheyDoNotFit) {
  NamedTensors given = tensors;
  given["params.weight"] = torch::ones({3, 3});
  EXPECT_EQ(
      refusal(given),
      "[tensors_of_argument] the tensor for slot 1 (params.weight) is f32[3,3], expected f32[2,3]; convert it, or "
      "capture again for such tensors");
  given["params.weight"] = torch::ones({2, 3}, at::kDouble);
  expect_contains(refusal(given), "(params.weight) is f64[2,3], expected f32[2,3]");
  given.erase("params.weight");
  EXPECT_EQ(refusal(given),
            "[tensors_of_argument] there is no tensor 'params.weight', expected f32[2,3] for the slot 'params.weight'; "
            "use the tensors that were saved with this pair");
  given = tensors;
  given["params.gain"] = torch::ones({2});
  EXPECT_EQ(refusal(given),
            "[tensors_of_argument] the tensor 'params.gain' does not belong to a slot of the argument 'params'; use "
            "the pair that it was saved for, or leave it out");
  EXPECT_EQ(refusal(tensors, "param"),
            "[tensors_of_argument] the pair has no argument 'param', expected one of params, x");
}

TEST_F(PairParameters, AreNotWrittenBesideAPairThatNoFileCanHold) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(1);
  const auto draws = [&](const at::Tensor& t) { return (t * at::rand({2}, generator)).sum(); };
  const Pair unsavable = capture(draws, torch::ones({2}).requires_grad_());
  expect_error([&] { save_with_tensors(unsavable, tensors, path); }, "generator");
  NamedTensors sparse = tensors;
  sparse["params.bias"] = torch::ones({2}).to_sparse();
  expect_error([&] { save_with_tensors(pair, sparse, path); }, "'params.bias'");
  EXPECT_TRUE(fs::is_empty(folder)) << "a refused run left a file";
}

TEST_F(PairParameters, OfDamagedFilesAreRefused) {
  save_with_tensors(pair, tensors, path);
  const std::string beside = path + ".safetensors";
  fs::resize_file(beside, fs::file_size(beside) / 2);
  expect_error([&] { load_with_tensors(path); }, "[load_tensors] '" + beside);
  fs::remove(beside);
  expect_error([&] { load_with_tensors(path); }, "No such file");
  fs::resize_file(path, fs::file_size(path) - 1);
  expect_error([&] { load_with_tensors(path); }, "cut short");
}

}  // namespace
}  // namespace diptych::testing
