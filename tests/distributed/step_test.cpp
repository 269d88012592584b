// Training steps of two processes beside steps of one process on the whole batch. Every process runs every test.
#include "diptych/backward/step.h"

#include <torch/autograd.h>
#include <torch/nn.h>
#include <torch/optim.h>
#include <torch/types.h>

#include <iostream>

#include "diptych/backward/backward_capture.h"
#include "diptych/base/error.h"
#include "diptych/compile/aot.h"
#include "diptych/distributed/gradient_reduction.h"
#include "distributed/together.h"

namespace diptych::distributed {
namespace {

constexpr int64_t kBatch = 8, kWidth = 6, kSteps = 4;

// Layers whose weights are used in another order than they stand in, one of them twice.
struct Net : torch::nn::Module {
  Net() {
    torch::manual_seed(3);
    first = register_module("first", torch::nn::Linear(kWidth, kWidth));
    middle = register_module("middle", torch::nn::Linear(kWidth, kWidth));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    last = register_module("last", torch::nn::Linear(kWidth, 1));
  }
  at::Tensor loss(const at::Tensor& x) {
    at::Tensor h = middle(torch::tanh(first(x)));
    h = middle(norm(torch::gelu(h)));
    return last(h).square().mean();
  }
  torch::nn::Linear first{nullptr}, middle{nullptr}, last{nullptr};
  torch::nn::LayerNorm norm{nullptr};
};

at::Tensor batch(int64_t step) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(100 + step);
  return torch::randn({kBatch, kWidth}, generator, torch::TensorOptions());
}

at::Tensor share(const at::Tensor& whole) {
  const int64_t count = whole.size(0) / process().size();
  return whole.narrow(0, process().rank() * count, count);
}

torch::optim::AdamWOptions adam() { return torch::optim::AdamWOptions(1e-2).weight_decay(0.1); }

double difference(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, (a[i].detach() - b[i].detach()).abs().max().item<double>());
  }
  return largest;
}

std::vector<at::Tensor> gradients_of(const torch::nn::Module& module) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : module.parameters()) gradients.push_back(parameter.grad());
  return gradients;
}

std::vector<size_t> positions(const Graph& graph, const std::string& op) {
  std::vector<size_t> found;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    if (graph.nodes()[i].op.name() == op) found.push_back(i);
  }
  return found;
}

std::string text_of(const std::vector<size_t>& positions) {
  std::string text;
  for (const size_t at : positions) text += " " + std::to_string(at);
  return text;
}

TEST(ParallelStep, GradientsAndUpdatesAreThoseOfTheJoinedBatch) {
  for (const int64_t bytes : {int64_t{1}, int64_t{100}, int64_t{1} << 20}) {
    Net alone, together;
    process().broadcast(together);
    torch::optim::AdamW optimizer_alone(alone.parameters(), adam()), optimizer(together.parameters(), adam());
    const auto reduction = std::make_shared<GradientReduction>(
        process(), together.parameters(), BucketOptions{.bucket_bytes = bytes, .first_bucket_bytes = bytes});
    const auto step =
        capture_step(optimizer, {.max_gradient_norm = 0.5, .keep_gradients = true, .transform = reduction});
    backward_capture::reset();
    double of_gradients = 0, of_parameters = 0;
    for (int64_t i = 0; i < kSteps; ++i) {
      optimizer_alone.zero_grad();
      alone.loss(batch(i)).backward();
      torch::nn::utils::clip_grad_norm_(alone.parameters(), 0.5);
      optimizer_alone.step();
      step(together.loss(share(batch(i))));
      of_gradients = std::max(of_gradients, difference(gradients_of(alone), gradients_of(together)));
      of_parameters = std::max(of_parameters, difference(alone.parameters(), together.parameters()));
    }
    std::cout << reduction->buckets().size() << " buckets: largest difference of gradients " << of_gradients
              << ", of parameters " << of_parameters << " in " << kSteps << " steps" << std::endl;
    EXPECT_LE(of_gradients, 1e-5);
    EXPECT_LE(of_parameters, 1e-5);
    EXPECT_EQ(backward_capture::statistics().captures, 1U);
  }
}

TEST(ParallelStep, ProcessesStayEqualToTheLastBit) {
  Net net;
  process().broadcast(net);
  torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  const auto step =
      capture_step(optimizer, {.transform = std::make_shared<GradientReduction>(process(), net.parameters())});
  for (int64_t i = 0; i < kSteps; ++i) step(net.loss(share(batch(i))));
  for (const at::Tensor& parameter : net.parameters()) {
    const at::Tensor own = parameter.detach().to(torch::kFloat64);
    EXPECT_TRUE(process().all_reduce(own).equal(own));
  }
}

TEST(ParallelStep, BucketsTravelBesideTheRestOfTheBackward) {
  Net net;
  torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.1));
  const auto reduction = std::make_shared<GradientReduction>(process(), net.parameters(),
                                                             BucketOptions{.bucket_bytes = 1, .first_bucket_bytes = 1});
  const auto step = capture_step(optimizer, {.transform = reduction});
  step(net.loss(share(batch(0))));
  const Graph graph = backward_capture::last_graph();
  const auto reductions = positions(graph, "_c10d_functional.all_reduce");
  const auto waits = positions(graph, "_c10d_functional.wait_tensor");
  const auto products = positions(graph, "aten.mm");
  const auto updates = positions(graph, "hop.update_parameters");
  const size_t buckets = reduction->buckets().size();
  EXPECT_EQ(buckets, net.parameters().size());
  ASSERT_EQ(reductions.size(), buckets) << graph.code();
  ASSERT_EQ(waits.size(), buckets) << graph.code();
  ASSERT_EQ(updates.size(), 1U);
  std::cout << "of " << graph.nodes().size() << " nodes, reductions begin at" << text_of(reductions)
            << ", matrix products stand at" << text_of(products) << ", waits at" << text_of(waits) << std::endl;
  // The gradient of the first weight is known last: its matrix product stands behind reductions that have begun, and
  // nothing is waited for before it. The update stands behind everything.
  EXPECT_GE(std::count_if(reductions.begin(), reductions.end(), [&](size_t at) { return at < products.back(); }), 3)
      << graph.code();
  EXPECT_GT(waits.front(), products.back()) << graph.code();
  EXPECT_GT(updates.front(), waits.back()) << graph.code();
}

// On one process one half of the net gets no gradient, on the other the other half.
TEST(ParallelStep, ParametersThatOneProcessDoesNotUseGetTheOthersGradient) {
  std::vector<at::Tensor> parameters, expected;
  for (int64_t i = 0; i < 3; ++i) parameters.push_back(torch::full({2}, 1.0 + i, torch::kFloat64).requires_grad_());
  const auto loss = [&](int64_t rank) {
    const at::Tensor used = rank == 0 ? parameters[0] * parameters[1] : parameters[1] * parameters[2];
    return used.square().sum();
  };
  for (int64_t r = 0; r < 2; ++r) {
    const auto gradients = torch::autograd::grad({loss(r)}, parameters, {}, {}, false, /*allow_unused=*/true);
    for (size_t i = 0; i < 3; ++i) {
      const at::Tensor gradient = gradients[i].defined() ? gradients[i] / 2 : torch::zeros({2}, torch::kFloat64);
      if (r == 0) expected.push_back(gradient);
      if (r == 1) expected[i] = parameters[i].detach() - 0.1 * (expected[i] + gradient);
    }
  }
  torch::optim::SGD optimizer(parameters, torch::optim::SGDOptions(0.1));
  const auto step = capture_step(optimizer, {.transform = std::make_shared<GradientReduction>(process(), parameters)});
  step(loss(process().rank()));
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(parameters[i].detach().allclose(expected[i], 0, 1e-12)) << i;
}

// Where the graphs of the processes differ, they still do the same collectives in the same order.
TEST(ParallelStep, OneProcessMayCaptureAnewWhileTheOtherDoesNot) {
  const auto weight = torch::full({3}, 2.0, torch::kFloat64).requires_grad_();
  torch::optim::SGD optimizer({weight}, torch::optim::SGDOptions(0.5));
  const auto step = capture_step(
      optimizer, {.transform = std::make_shared<GradientReduction>(process(), std::vector<at::Tensor>{weight})});
  double expected = 2;
  for (int64_t i = 0; i < 4; ++i) {
    const bool is_other = process().rank() == 1 && i % 2 == 1;
    step(is_other ? (weight * 3).sum() : weight.sum());
    expected -= 0.5 * (i % 2 == 1 ? 2.0 : 1.0);
  }
  EXPECT_TRUE(weight.detach().equal(torch::full({3}, expected, torch::kFloat64)));
}

// A hook that gives nothing on one process: what comes back from the others counts.
TEST(ParallelStep, AGradientThatTurnsOutUndefinedHereCountsAsZeros) {
  const auto weight = torch::ones({2}, torch::kFloat64).requires_grad_();
  torch::optim::SGD optimizer({weight}, torch::optim::SGDOptions(1.0));
  const auto step = capture_step(
      optimizer, {.transform = std::make_shared<GradientReduction>(process(), std::vector<at::Tensor>{weight})});
  struct Cut : torch::autograd::Function<Cut> {
    static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) { return x.clone(); }
    static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::tensor_list gradients) {
      return {process().rank() == 1 ? at::Tensor() : gradients[0]};
    }
  };
  step(Cut::apply(weight).sum());
  EXPECT_TRUE(weight.detach().equal(torch::full({2}, 0.5, torch::kFloat64))) << weight;
}

TEST(ParallelStep, WithACompiledForwardIsTwoGraphs) {
  Net alone, together;
  torch::optim::SGD optimizer_alone(alone.parameters(), torch::optim::SGDOptions(0.1));
  torch::optim::SGD optimizer(together.parameters(), torch::optim::SGDOptions(0.1));
  const auto compiled = aot_function([&](const at::Tensor& x) { return together.loss(x); });
  const auto step =
      capture_step(optimizer, {.transform = std::make_shared<GradientReduction>(process(), together.parameters())});
  backward_capture::reset();
  for (int64_t i = 0; i < kSteps; ++i) {
    optimizer_alone.zero_grad();
    alone.loss(batch(i)).backward();
    optimizer_alone.step();
    step(compiled(share(batch(i))));
  }
  EXPECT_LE(difference(alone.parameters(), together.parameters()), 1e-5);
  EXPECT_EQ(backward_capture::statistics().captures, 1U);
  EXPECT_EQ(compiled.stats().misses, 1U);
}

TEST(ParallelStep, APassThatRunsInEagerIsReducedAsWell) {
  Net alone, together;
  torch::optim::SGD optimizer_alone(alone.parameters(), torch::optim::SGDOptions(0.1));
  torch::optim::SGD optimizer(together.parameters(), torch::optim::SGDOptions(0.1));
  const auto step =
      capture_step(optimizer, {.transform = std::make_shared<GradientReduction>(process(), together.parameters())});
  optimizer_alone.zero_grad();
  alone.loss(batch(0)).backward();
  optimizer_alone.step();
  const torch::autograd::DetectAnomalyGuard anomaly;
  step(together.loss(share(batch(0))));
  EXPECT_LE(difference(alone.parameters(), together.parameters()), 1e-5);
}

}  // namespace
}  // namespace diptych::distributed
