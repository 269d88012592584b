// The losses of one GPT trained on one device and over meshes of devices, side by side, with the memory of a device.
// Usage: DIPTYCH_XLA_CPU_DEVICES=8 build/bench/bin/mesh_losses [steps]
#include <fmt/format.h>
#include <torch/optim/adamw.h>

#include <cstdlib>
#include <iostream>

#include "diptych/diptych.h"
#include "models.h"

namespace diptych::bench {
namespace {

struct Layout {
  std::string name;
  xla::Mesh mesh;
  bool splits_model;
  std::string optimizer_axis;
};

// The two matrices of each MLP and of each attention are split so that a product needs one exchange.
std::vector<xla::ShardingRule> rules_of(const GptShape& shape, bool splits_model, bool splits_data) {
  std::vector<xla::ShardingRule> rules;
  if (splits_data) rules.push_back({"data.*", {"data"}});
  for (int64_t layer = 0; splits_model && layer < shape.layers; ++layer) {
    const auto name = [&](int64_t parameter) {
      return fmt::format("params.{}", 2 + static_cast<int64_t>(kGptBlockParams) * layer + parameter);
    };
    rules.push_back({name(4), {xla::none, "model"}});
    rules.push_back({name(8), {"model"}});
    rules.push_back({name(9), {"model"}});
    rules.push_back({name(10), {xla::none, "model"}});
  }
  return rules;
}

std::vector<double> train(const GptShape& shape, const Layout& layout, int steps, size_t& bytes) {
  at::manual_seed(1);
  const Model model = gpt(shape, Fill::kValues);
  torch::optim::AdamW optimizer(model.params, 1e-3);
  const bool splits_data = std::count(layout.mesh.names.begin(), layout.mesh.names.end(), "data") != 0;
  const auto step = xla::capture_step(
      optimizer, [shape](const Tensors& params, const Tensors& data) { return gpt_loss(shape, params, data); },
      {.argument_names = {"params", "data"},
       .mesh = layout.mesh,
       .shardings = rules_of(shape, layout.splits_model, splits_data),
       .optimizer_axis = layout.optimizer_axis});
  std::vector<xla::DeviceTensor> losses;
  for (int i = 0; i < steps; ++i) losses.push_back(step(model.params, model.data).loss);
  bytes = step.state_bytes();
  std::vector<double> values;
  for (const auto& loss : losses) values.push_back(loss.item());
  return values;
}

void print(int steps) {
  const std::vector<Layout> layouts{{"one device", {}, false, ""},
                                    {"data 2", {{"data"}, {2}}, false, ""},
                                    {"model 2", {{"model"}, {2}}, true, ""},
                                    {"data 2, model 2", {{"data", "model"}, {2, 2}}, true, ""},
                                    {"data 4, optimizer", {{"data"}, {4}}, false, "data"},
                                    {"data 4, model 2, optimizer", {{"data", "model"}, {4, 2}}, true, "data"},
                                    {"data 8, optimizer", {{"data"}, {8}}, false, "data"}};
  const GptShape shape{6, 384, 6, 256, 64, 8, 64};
  std::cout << "| mesh | state on device 0, MB | losses |\n|---|---:|---|\n";
  for (const Layout& layout : layouts) {
    size_t bytes = 0;
    std::string text;
    for (const double loss : train(shape, layout, steps, bytes)) text += fmt::format(" {:.6f}", loss);
    std::cout << fmt::format("| {} | {:.1f} |{} |\n", layout.name, static_cast<double>(bytes) / 1e6, text)
              << std::flush;
  }
}

}  // namespace
}  // namespace diptych::bench

int main(int argc, char** argv) {
  try {
    diptych::bench::print(argc > 1 ? std::max(1, std::atoi(argv[1])) : 5);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
