// Modules for other programs: the plugin that compiles and runs them knows nothing of the graphs, and returns what the
// pair returns; what has no place in a module is refused before a file is touched.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "diptych/diptych.h"
#include "diptych/xla/pjrt/pjrt_program.h"
#include "testing/expect_error.h"

namespace diptych::testing {
namespace {

namespace fs = std::filesystem;
using detail::PjrtBuffer, detail::PjrtClient, detail::PjrtProgram;

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

at::Tensor random_leaf(at::IntArrayRef sizes) { return torch::randn(sizes).requires_grad_(); }

// Runs the module of a graph, with the graph's sizes and in the order of its slots; empty slots stay undefined.
std::vector<at::Tensor> run_module(const Graph& graph, std::vector<at::Tensor> inputs) {
  const auto module = detail::stablehlo_module(graph);
  inputs.insert(inputs.end(), module.constants.begin(), module.constants.end());
  std::vector<std::shared_ptr<PjrtBuffer>> buffers;
  for (const at::Tensor& input : inputs) {
    buffers.push_back(
        PjrtBuffer::from_tensor(PjrtClient::shared(), input.detach().clone(at::MemoryFormat::Contiguous)));
  }
  auto results = PjrtProgram(PjrtClient::shared(), module.text).run(buffers);
  std::vector<at::Tensor> outputs;
  size_t next = 0;
  for (const Value value : graph.outputs()) {
    outputs.emplace_back();
    if (!value) continue;
    const TensorMeta& meta = graph.meta(value);
    outputs.back() = PjrtBuffer::to_tensor(results.at(next++), meta.size_hints(), meta.dtype);
  }
  EXPECT_EQ(next, results.size());
  return outputs;
}

void expect_close(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& expected, const Graph& graph) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].defined(), expected[i].defined()) << graph.output_slots()[i].path;
    if (!got[i].defined()) continue;
    EXPECT_TRUE(at::allclose(got[i], expected[i], 1e-4, 1e-5)) << graph.output_slots()[i].path << graph.code();
  }
}

// Compiles both modules of a pair with the plugin and compares them with the interpreter, on the arguments given.
void expect_modules_run(const Pair& pair, std::vector<at::Tensor> arguments) {
  for (at::Tensor& argument : arguments) argument = argument.detach();
  auto expected = pair.forward_call(arguments);
  std::vector<at::Tensor> inputs = arguments, all = expected.outputs;
  inputs.insert(inputs.end(), pair.free_variables.begin(), pair.free_variables.end());
  all.insert(all.end(), expected.residuals.begin(), expected.residuals.end());
  expect_close(run_module(pair.forward, inputs), all, pair.forward);
  std::vector<at::Tensor> tangents;
  for (const size_t output : pair.signature.differentiable_outputs()) {
    tangents.push_back(at::randn_like(expected.outputs[output]));
  }
  auto given = expected.residuals;
  given.insert(given.end(), tangents.begin(), tangents.end());
  expect_close(run_module(pair.backward, given), pair.backward_call(expected.residuals, tangents), pair.backward);
}

TEST(StableHlo, ModulesOfLayersRun) {
  const at::Tensor x = random_leaf({4, 3}), w = random_leaf({3, 5}), unused = torch::ones({2});
  const auto layer = [](const at::Tensor& x, const at::Tensor& unused, const at::Tensor& w) {
    return std::vector<at::Tensor>{at::gelu(x.matmul(w)).sum(0), x, unused + 1};
  };
  expect_modules_run(capture(layer, x, unused, w), {x, unused, w});
}

TEST(StableHlo, ModulesTakeSizesAsTheSlotsHaveThem) {
  const at::Tensor x = torch::randn({3, 4}).t().requires_grad_();
  expect_modules_run(capture([](const at::Tensor& x) { return x.exp().t() * 2; }, x), {x});
}

TEST(StableHlo, ModulesTakeConstantsLast) {
  const at::Tensor x = random_leaf({2, 3});
  const auto scaled = [](const at::Tensor& x) { return x * at::arange(6).reshape({2, 3}); };
  const Pair pair = capture(scaled, x);
  expect_modules_run(pair, {x});
}

TEST(StableHlo, ModulesOfLoopsAndBranchesRun) {
  const at::Tensor w = random_leaf({3, 3}), h = random_leaf({2, 3}), xs = random_leaf({5, 2, 3});
  const auto scanned = [](const at::Tensor& w, const at::Tensor& h, const at::Tensor& xs) {
    const auto step = [&](const at::Tensor& h, const at::Tensor& x) {
      const at::Tensor next = at::tanh(h.matmul(w) + x);
      return std::pair(next, next * 2);
    };
    return scan(step, h, xs).second;
  };
  expect_modules_run(capture(scanned, w, h, xs), {w, h, xs});
  const auto chosen = [](const at::Tensor& x) {
    return cond(
        x.sum() > 0, [](const at::Tensor& x) { return x.sin(); }, [](const at::Tensor& x) { return x * 3; }, x);
  };
  expect_modules_run(capture(chosen, h), {h});
}

TEST(StableHlo, MutatedInputsGiveTheirMemoryToTheirNewValues) {
  const at::Tensor x = torch::randn({3}), w = random_leaf({3});
  const auto accumulate = [](at::Tensor x, const at::Tensor& w) {
    x.mul_(2);
    return x * w;
  };
  const Pair pair = capture(accumulate, x, w);
  expect_contains(stablehlo(pair).forward,
                  "@main(%arg0: tensor<3xf32> {tf.aliasing_output = 1 : i32}, %arg1: tensor<3xf32>)");
  expect_modules_run(pair, {x, w});
}

at::Tensor two_layers(const at::Tensor& w, const at::Tensor& x) { return x.matmul(w).tanh().matmul(w).sin().exp(); }

TEST(StableHlo, CheckpointsAreRecomputedBehindBarriers) {
  const at::Tensor w = random_leaf({3, 3}), x = random_leaf({2, 3});
  const StableHlo plain = stablehlo(capture(two_layers, w, x));
  EXPECT_EQ(count(plain.backward, "stablehlo.tanh"), 0U);
  EXPECT_EQ(count(plain.backward, "optimization_barrier"), 0U);
  const Pair pair =
      capture([](const at::Tensor& w, const at::Tensor& x) { return checkpoint(two_layers)(w, x); }, w, x);
  const StableHlo modules = stablehlo(pair);
  for (const char* operation : {"stablehlo.tanh", "stablehlo.sine"}) {
    EXPECT_EQ(count(modules.forward, operation), 1U) << operation;
    EXPECT_EQ(count(modules.backward, operation), 1U) << operation;
  }
  EXPECT_EQ(count(modules.forward, "optimization_barrier"), 0U);
  EXPECT_EQ(count(modules.backward, "optimization_barrier"), 1U) << modules.backward;
  expect_modules_run(pair, {w, x});
}

TEST(StableHlo, EachCheckpointedRegionHasItsBarrier) {
  const at::Tensor w = random_leaf({3, 3}), x = random_leaf({2, 3});
  const auto layer = checkpoint(two_layers);
  const Pair pair =
      capture([&](const at::Tensor& w, const at::Tensor& x) { return layer(w, layer(w, layer(w, x))); }, w, x);
  EXPECT_EQ(count(stablehlo(pair).backward, "optimization_barrier"), 3U);
  EXPECT_EQ(count(stablehlo(pair).backward, "stablehlo.tanh"), 3U);
  expect_modules_run(pair, {w, x});
}

TEST(StableHlo, WhatAPartitionerRecomputesOnItsOwnHasNoBarrier) {
  const at::Tensor x = random_leaf({2, 3});
  const auto chain = [](const at::Tensor& x) { return x.sin().cos().exp().tanh().sum(); };
  const Pair pair = capture_with({.partition = partitioner_by_name("min_cut")}, chain, x);
  EXPECT_EQ(count(stablehlo(pair).backward, "optimization_barrier"), 0U);
}

TEST(StableHlo, RefusesByName) {
  const at::Tensor x = torch::eye(3);
  const auto message = [&](auto function, const at::Tensor& x) {
    const Graph graph = capture(function, x).forward;
    return message_of([&] { stablehlo(graph); });
  };
  expect_contains(message([](const at::Tensor& x) { return at::dropout(x, 0.5, true); }, random_leaf({3})),
                  {"[stablehlo] graph 'forward': node 1", "draws random numbers", "as an argument"});
  expect_contains(message([](const at::Tensor& x) { return at::linalg_inv(x.sin()); }, x),
                  {"[stablehlo] graph 'forward': node 1", "aten.linalg_inv_ex", "has no lowering"});
  const auto in_loop = [](const at::Tensor& x) {
    return scan([](const at::Tensor& c, const at::Tensor& x) { return std::pair(at::linalg_inv(c), x); }, x, x).first;
  };
  expect_contains(message(in_loop, x), {"node 0", "aten.linalg_inv_ex", "has no lowering"});
  expect_contains(message([](const at::Tensor& x) { return x.clone(); }, at::ones({2}, at::kComplexHalf)),
                  {"input", "dtype", "StableHLO does not have"});
}

class Export : public ::testing::Test {
 protected:
  void SetUp() override {
    root = fs::temp_directory_path() / ("diptych_export_" + std::to_string(::getpid()));
    fs::create_directories(root);
    folder = (root / "out").string();
  }
  void TearDown() override { fs::remove_all(root); }
  std::vector<std::string> files(const fs::path& path) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path)) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
  nlohmann::json manifest() const { return nlohmann::json::parse(std::ifstream(fs::path(folder) / "manifest.json")); }

  fs::path root;
  std::string folder;
  at::Tensor w = random_leaf({3, 2}), x = torch::ones({4, 3}), free = random_leaf({2});
  Pair pair = capture_with(
      {.argument_names = {"w", "x"}},
      [this](const at::Tensor& w, const at::Tensor& x) { return (x.matmul(w) + free).sin(); }, w, x);
};

TEST_F(Export, WritesAFolderThatSaysWhatItHolds) {
  export_stablehlo(pair, folder + "/", {{"w", w.detach()}});
  EXPECT_EQ(files(folder), (std::vector<std::string>{"backward.mlir", "constants.safetensors", "forward.mlir",
                                                     "manifest.json", "parameters.safetensors"}));
  EXPECT_EQ(files(root).size(), 1U);
  const auto found = manifest();
  EXPECT_EQ(found["version"], kStableHloManifestVersion);
  const auto& parameters = found["forward"]["parameters"];
  ASSERT_EQ(parameters.size(), 3U);
  EXPECT_EQ(parameters[0]["tensor"], "w");
  EXPECT_EQ(parameters[1]["path"], "x");
  EXPECT_FALSE(parameters[1].contains("tensor"));
  EXPECT_EQ(parameters[2]["kind"], "free_variable");
  const auto tensors = load_tensors(folder + "/parameters.safetensors");
  EXPECT_TRUE(tensors.at(parameters[2]["tensor"].get<std::string>()).equal(free.detach()));
  EXPECT_TRUE(tensors.at("w").equal(w.detach()));
  for (const auto& result : found["backward"]["results"]) {
    const auto& input = parameters[result["gradient_of"].get<size_t>()];
    EXPECT_EQ(result["path"], input["path"]);
    EXPECT_EQ(result["index"].is_null(), result["path"] == "x");
  }
}

TEST_F(Export, ReplacesAnEarlierExportAndNothingElse) {
  export_stablehlo(pair, folder, {{"w", w.detach()}});
  export_stablehlo(pair, folder);
  EXPECT_EQ(load_tensors(folder + "/parameters.safetensors").count("w"), 0U);
  EXPECT_EQ(files(root).size(), 1U);
  const auto other = (root / "other").string();
  fs::create_directories(other);
  std::ofstream(other + "/notes.txt") << "mine";
  expect_error([&] { export_stablehlo(pair, other); }, {"other", "holds something other than an export"});
  EXPECT_EQ(files(other), std::vector<std::string>{"notes.txt"});
}

TEST_F(Export, WritesNothingThatIsHalfRight) {
  const auto no_module = capture([](const at::Tensor& x) { return at::dropout(x, 0.5, true); }, random_leaf({3}));
  expect_error([&] { export_stablehlo(no_module, folder); }, "draws random numbers");
  expect_error([&] { export_stablehlo(pair, folder, {{"w", torch::ones({5})}}); }, {"w", "f32[5]", "f32[3,2]"});
  expect_error([&] { export_stablehlo(pair, ""); }, "name is empty");
  std::ofstream(root / "file") << "";
  expect_error([&] { export_stablehlo(pair, (root / "file" / "out").string()); }, "check the path and its permissions");
  EXPECT_EQ(files(root), std::vector<std::string>{"file"});
}

}  // namespace
}  // namespace diptych::testing
