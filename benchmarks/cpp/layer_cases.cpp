// The layers suite: a deep, narrow GPT whose blocks are equal modules, run by dp::scan_layers or written out.
#include <torch/nn.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "diptych/diptych.h"
#include "diptych/hops/scan/scan_layers.h"
#include "gradient_case.h"
#include "stepped.h"
#include "suites.h"

namespace diptych::bench {
namespace {

constexpr int64_t kDeepest = 48;
constexpr int64_t kDeepestChecked = 12;

GptShape gpt_of(int64_t depth) {
  return {depth, /*width=*/64, /*heads=*/4, /*vocab=*/256, /*block=*/128, /*batch=*/8, /*positions=*/128};
}

/// A block of models.h as a module, which is what scan_layers takes.
struct BlockImpl : torch::nn::Module {
  BlockImpl(const GptShape& sizes, const at::Tensor* params, bool is_checkpointed)
      : shape(sizes), checkpointed(is_checkpointed), weights(params, params + kGptBlockParams) {
    for (size_t i = 0; i < weights.size(); ++i) register_parameter("p" + std::to_string(i), weights[i]);
  }
  at::Tensor forward(const at::Tensor& x) {
    const auto compute = [this](const at::Tensor& t) { return gpt_block(shape, t, weights.data()); };
    return checkpointed ? checkpoint(compute)(x) : compute(x);
  }

  GptShape shape;
  bool checkpointed;
  Tensors weights;
};
TORCH_MODULE(Block);

struct DeepGpt {
  GptShape shape;
  Tensors params;
  std::vector<Block> blocks;
  LayerWay way;

  DeepGpt(const GptShape& sizes, const Tensors& given, LayerWay how) : shape(sizes), params(given), way(how) {
    for (int64_t i = 0; i < shape.layers; ++i) {
      blocks.emplace_back(shape, &params[2 + kGptBlockParams * i], way != LayerWay::kScanAll);
    }
  }

  at::Tensor loss(const Tensors& data) const {
    at::Tensor x = at::embedding(params[0], data[0]) + params[1];
    if (way == LayerWay::kWrittenOut) {
      for (auto block : blocks) x = block->forward(x);
    } else {
      x = scan_layers(blocks, x);
    }
    x = at::layer_norm(x, {shape.width}, params[params.size() - 2], params.back());
    return at::cross_entropy_loss(at::linear(x, params[0]).flatten(0, 1), data[1].flatten());
  }
};

Reply run_capture(const GptShape& shape, LayerWay way, int repeat) {
  const Model model = gpt(shape, Fill::kUntouched);
  const DeepGpt deep(shape, model.params, way);
  size_t nodes = 0;
  auto times = timed(repeat, [&] {
    const auto loss = [&deep](const Tensors& data) { return deep.loss(data); };
    const Pair pair = capture_with({.name = "deep_gpt"}, loss, model.data);
    nodes = pair.forward.nodes().size() + pair.backward.nodes().size();
  });
  return {std::move(times), {{"joint_nodes", nodes}}};
}

int64_t bytes_of(const Tensors& tensors) {
  int64_t total = 0;
  for (const at::Tensor& tensor : tensors) total += static_cast<int64_t>(tensor.nbytes());
  return total;
}

/// Returns the bytes that one block keeps for its backward, besides its input and parameters.
int64_t residuals_of_block(const GptShape& shape) {
  const Tensors params = gpt_params(shape, Fill::kUntouched);
  const at::Tensor x = at::empty({shape.batch, shape.block, shape.width}).set_requires_grad(true);
  const auto block = [&](const at::Tensor& t) { return gpt_block(shape, t, &params[2]); };
  return residual_bytes(capture(block, x).split);
}

/// Returns how far, according to theory, a step's memory rises above parameters and data.
nlohmann::json theory(const GptShape& shape, LayerWay way) {
  const Tensors params = gpt_params(shape, Fill::kUntouched);
  const int64_t all = bytes_of(params);
  const int64_t of_blocks = bytes_of({params.begin() + 2, params.end() - 2});
  const int64_t input = shape.batch * shape.block * shape.width * int64_t{sizeof(float)};
  const bool is_scan = way == LayerWay::kScan || way == LayerWay::kScanAll;
  const bool keeps_all = way == LayerWay::kScanAll || way == LayerWay::kEager;
  nlohmann::json terms{{"gradients", all}, {"block inputs", shape.layers * input}};
  terms["residuals"] = residuals_of_block(shape) * (keeps_all ? shape.layers : 1);
  if (is_scan) terms["stacked parameters"] = of_blocks;
  return predicted(terms);
}

GradientCase::Loss loss_of(const GptShape& shape, LayerWay way) {
  if (way == LayerWay::kEager) return eager_loss;
  const auto deep = std::make_shared<std::optional<DeepGpt>>();  // has the model's parameters, once there is a model
  const auto compiled = aot_function([deep](const Tensors& data) { return (*deep)->loss(data); }, {.name = "deep_gpt"});
  return [=](const Model& model) {
    if (!*deep) deep->emplace(shape, model.params, way);
    return compiled(model.data);
  };
}

GradientCase step_case(const GptShape& shape, LayerWay way) {
  GradientCase::Parts parts{"layers/step/" + std::to_string(shape.layers),
                            [shape] { return gpt(shape, Fill::kValues); }, loss_of(shape, way)};
  if (way != LayerWay::kEager && shape.layers <= kDeepestChecked) parts.eager = eager_loss;
  parts.facts = [=] { return theory(shape, way); };
  return GradientCase(std::move(parts));
}

}  // namespace

void add_layer_cases(Cases& cases, LayerWay way) {
  for (const int64_t depth : {kDeepestChecked, kDeepest}) {
    const GptShape shape = gpt_of(depth);
    cases["layers/step/" + std::to_string(depth)] = step_case(shape, way);
    if (way == LayerWay::kEager) continue;
    cases["layers/capture/" + std::to_string(depth)] = [=](int repeat) { return run_capture(shape, way, repeat); };
  }
}

Cases diptych_one_block_cases() {
  Cases cases;
  for (const int64_t beside : {kDeepestChecked, kDeepest}) {
    cases["layers/capture/" + std::to_string(beside)] = [](int repeat) {
      return run_capture(gpt_of(1), LayerWay::kWrittenOut, repeat);
    };
  }
  return cases;
}

Cases diptych_written_out_cases() {
  Cases cases;
  add_layer_cases(cases, LayerWay::kWrittenOut);
  return cases;
}

Cases diptych_all_kept_cases() {
  Cases cases;
  add_layer_cases(cases, LayerWay::kScanAll);
  return cases;
}

}  // namespace diptych::bench
