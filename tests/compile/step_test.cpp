// Captured steps, one property a test; step_random_test.cpp has their numerics.
#include "diptych/backward/step.h"

#include <gtest/gtest.h>
#include <torch/optim.h>

#include "compile/step_check.h"
#include "diptych/backward/backward_capture.h"
#include "diptych/compile/aot.h"
#include "diptych/graph/parse.h"
#include "diptych/graph/verify.h"
#include "diptych/ops/hop_schemas.h"
#include "diptych/passes/remove_dead_nodes.h"

namespace diptych::testing {

using namespace detail;
namespace {

namespace ag = torch::autograd;
namespace optim = torch::optim;

size_t count_nodes(const Graph& graph, std::string_view name) {
  return static_cast<size_t>(std::count_if(graph.nodes().begin(), graph.nodes().end(),
                                           [&](const Node& node) { return node.op.name() == name; }));
}

TEST_F(Step, IsOneGraphForAllStepsOfASchedule) {
  const Tensors p = layer();
  optim::Adam optimizer(p, optim::AdamOptions(0.1));
  optim::StepLR scheduler(optimizer, 2, 0.5);
  const auto step = capture_step(optimizer, {.max_gradient_norm = 1.0});
  for (int i = 0; i < 20; ++i) {
    step(loss_of(p));
    scheduler.step();
  }
  EXPECT_EQ(backward_capture::statistics().captures, 1);
  EXPECT_EQ(backward_capture::statistics().hits, 19);
  const Graph graph = backward_capture::last_graph();
  EXPECT_EQ(count_nodes(graph, "hop.update_parameters"), 1);
  EXPECT_EQ(graph.nodes().back().op.name(), "hop.update_parameters");
  EXPECT_EQ(count_nodes(graph, "hop.autograd_node"), 0);
}

TEST_F(Step, MakesATrainingStepTwoGraphs) {
  const Aot forward = aot_function([](const at::Tensor& w, const at::Tensor& x) { return x.matmul(w).tanh().sum(); });
  const Tensors p = new_leaves({torch::randn({3, 4})});
  const at::Tensor x = torch::randn({2, 3});
  const auto optimizer = adamw(p);
  const auto step = capture_step(*optimizer);
  for (int i = 0; i < 5; ++i) step(forward(p[0], x));
  EXPECT_EQ(backward_capture::statistics().captures, 1);
  EXPECT_EQ(backward_capture::statistics().hits, 4);
  const Graph graph = backward_capture::last_graph();
  EXPECT_EQ(count_nodes(graph, "hop.autograd_node"), 0) << graph.code();
  EXPECT_EQ(count_nodes(graph, "hop.update_parameters"), 1);
}

TEST_F(Step, IsCapturedTwiceForAnyNumberOfBatchSizes) {
  const Tensors values{torch::randn({3, 4}, torch::kFloat64), torch::randn({4}, torch::kFloat64)};
  const Tensors ours = new_leaves(values), eagers = new_leaves(values);
  const auto our_optimizer = adamw(ours), eager_optimizer = adamw(eagers);
  const StepOptions options{.max_gradient_norm = 0.5};
  const auto step = capture_step(*our_optimizer, options);
  for (const int64_t batch : {4, 6, 5, 9, 3, 2, 12, 7}) {
    const at::Tensor x = torch::randn({batch, 3}, torch::kFloat64);
    const auto loss = [&](const Tensors& p) { return at::addmm(p[1], x, p[0]).tanh().square().mean(); };
    const auto norm = step(loss(ours));
    EXPECT_NEAR(*norm, *eager_step(*eager_optimizer, loss(eagers), options), 1e-12);
  }
  expect_same_training(*our_optimizer, ours, *eager_optimizer, eagers, 1e-12);
  EXPECT_EQ(backward_capture::statistics().captures, 2);
  EXPECT_EQ(backward_capture::statistics().hits, 6);
}

TEST_F(Step, SurvivesPassesThatRemoveWhatNobodyReads) {
  const Tensors p = layer();
  const auto optimizer = adamw(p);
  capture_step (*optimizer)(loss_of(p));
  const Graph graph = remove_dead_nodes(backward_capture::last_graph());
  EXPECT_EQ(count_nodes(graph, "hop.update_parameters"), 1);
}

TEST_F(Step, IsAGraphThatPrintsAndParses) {
  const Tensors p = layer();
  optim::SGD optimizer(p, optim::SGDOptions(0.1).momentum(0.9));
  p[0].register_hook([](const at::Tensor& g) { return g * 2; });
  capture_step(optimizer, {.max_gradient_norm = 1.0})(loss_of(p));
  const Graph graph = backward_capture::last_graph();
  verify(graph);
  EXPECT_EQ(parse(graph.code(), {}, find_hop_schema).code(), graph.code());
}

TEST_F(Step, MissesOfEndingsAreExplained) {
  const at::Tensor x = torch::ones({2}).requires_grad_(), unused = torch::ones({3}).requires_grad_();
  const auto loss = [&] { return x.square().sum(); };
  {
    const BackwardCapture capture;
    loss().backward();
  }
  optim::SGD sgd({unused}, optim::SGDOptions(0.1));
  capture_step(sgd)(loss());
  optim::SGD other({torch::ones({4}).requires_grad_()}, optim::SGDOptions(0.1));
  capture_step(other)(loss());
  const auto misses = backward_capture::statistics().misses;
  const std::string words = "sgd [1 parameters, momentum=0, dampening=0, weight_decay=0, nesterov=0]";
  EXPECT_EQ(misses, (std::vector<std::string>{"the first backward", words + " follows",
                                              "what follows the run has other inputs"}));
  backward_capture::reset();
  capture_step(sgd)(loss());
  const BackwardCapture capture;
  loss().backward();
  EXPECT_EQ(backward_capture::statistics().misses.back(), "nothing follows the run");
}

TEST_F(Step, ChangedOptionsAreAnExplainedMiss) {
  const Tensors p = layer();
  optim::SGD optimizer(p, optim::SGDOptions(0.1).momentum(0.9));
  const auto step = capture_step(optimizer);
  step(loss_of(p));
  static_cast<optim::SGDOptions&>(optimizer.param_groups()[0].options()).momentum(0.5);
  step(loss_of(p));
  loss_of(p).backward();
  const auto statistics = backward_capture::statistics();
  ASSERT_EQ(statistics.captures, 2);
  EXPECT_EQ(statistics.misses[1],
            "what follows the run changed sgd [2 parameters, momentum=0.9, dampening=0, weight_decay=0, nesterov=0] "
            "-> sgd [2 parameters, momentum=0.5, dampening=0, weight_decay=0, nesterov=0]");
}

TEST_F(Step, AnExceptionInAHookLeavesParametersAndStateAsTheyWere) {
  const Tensors p = layer();
  bool fails = false;
  p[0].register_hook([&](const at::Tensor& g) -> at::Tensor {
    if (fails) throw std::runtime_error("the hook's own words");
    return g;
  });
  const auto optimizer = adamw(p);
  const auto step = capture_step(*optimizer);
  step(loss_of(p));
  const Tensors before{p[0].detach().clone(), p[1].detach().clone()};
  Tensors state;
  for (const at::Tensor& tensor : state_of(*optimizer, p[1])) state.push_back(tensor.clone());
  fails = true;
  try {
    step(loss_of(p));
    FAIL() << "the hook threw";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "the hook's own words");
  }
  EXPECT_TRUE(same_tensors(p, before));
  EXPECT_TRUE(same_tensors(state_of(*optimizer, p[1]), state));
  fails = false;
  step(loss_of(p));
  EXPECT_EQ(state_of(*optimizer, p[1])[0].item<int64_t>(), 2);
  EXPECT_EQ(backward_capture::statistics().captures, 1);
}

TEST_F(Step, KeepsGradientsWhereAsked) {
  const Tensors expected = layer(), got = new_leaves(expected);
  const StepOptions options{.max_gradient_norm = 0.01, .keep_gradients = true};
  const auto eager = adamw(expected), captured = adamw(got);
  const auto step = capture_step(*captured, options);
  const auto loss = [](const Tensors& p) { return loss_of(p) + p[1].sum(); };  // an expanded gradient among them
  for (int i = 0; i < 3; ++i) {
    eager_step(*eager, loss(expected), options);
    step(loss(got));
    for (size_t k = 0; k < 2; ++k) {
      ASSERT_TRUE(got[k].grad().defined());
      EXPECT_TRUE(torch::allclose(got[k].grad(), expected[k].grad()));
      EXPECT_EQ(got[k].grad().strides(), expected[k].grad().strides());
      EXPECT_FALSE(got[k].grad().requires_grad());
    }
  }
}

TEST_F(Step, RunsInEagerWhereABackwardCantBeCaptured) {
  const ag::DetectAnomalyGuard anomaly;
  expect_like_eager({torch::randn({3, 4}, torch::kFloat64), torch::randn({4}, torch::kFloat64)}, adamw, loss_of,
                    {.max_gradient_norm = 0.1});
  EXPECT_EQ(backward_capture::statistics().captures, 0);
}

TEST_F(Step, CountsAsAChangeOfTheParameters) {
  for (const bool is_sgd : {true, false}) {
    const Tensors p = layer();
    const auto optimizer =
        is_sgd ? std::unique_ptr<optim::Optimizer>(std::make_unique<optim::SGD>(p, optim::SGDOptions(0.1))) : adamw(p);
    const at::Tensor later = (p[0] * p[0]).sum();
    capture_step (*optimizer)(loss_of(p));
    try {
      later.backward();
      FAIL() << "what was saved has changed";
    } catch (const c10::Error& error) {
      EXPECT_NE(std::string(error.what()).find("modified by an inplace operation"), std::string::npos) << error.what();
    }
  }
}

TEST_F(Step, AccumulatesForOtherLeavesAsEver) {
  const Tensors p = layer();
  const at::Tensor other = torch::ones({4}, torch::kFloat64).requires_grad_();
  const auto optimizer = adamw(p);
  const auto step = capture_step(*optimizer);
  for (int i = 0; i < 2; ++i) step((loss_of(p) * other).sum() / loss_of(p).detach());
  EXPECT_TRUE(torch::allclose(other.grad(), torch::full({4}, 2.0, torch::kFloat64)));
  EXPECT_FALSE(p[0].grad().defined());
}

TEST_F(Step, ABackwardInsideAHookIsNotItsPass) {
  const Tensors p = layer();
  const at::Tensor w = torch::ones({2}, torch::kFloat64).requires_grad_();
  p[1].register_hook([&](const at::Tensor& g) {
    const at::AutoGradMode enabled(true);
    w.exp().sum().backward();
    return g;
  });
  const auto optimizer = adamw(p);
  const Tensors before = new_leaves(p);
  const auto step = capture_step(*optimizer);
  step(loss_of(p));
  step(loss_of(p));
  EXPECT_TRUE(torch::allclose(w.grad(), 2 * w.detach().exp()));
  EXPECT_EQ(state_of(*optimizer, p[0])[0].item<int64_t>(), 2);
}

TEST_F(Step, TwoOptimizersTakeTurns) {
  const Tensors p = layer();
  const auto first = adamw({p[0]}), second = adamw({p[1]});
  const auto train_first = capture_step(*first), train_second = capture_step(*second);
  for (int i = 0; i < 4; ++i) {
    train_first(loss_of(p));
    train_second(-loss_of(p));
  }
  EXPECT_EQ(backward_capture::statistics().captures, 2);
  EXPECT_EQ(backward_capture::statistics().hits, 6);
}

/// Writes down what it is told, and halves what it gets.
struct Halving final : GradientTransform {
  std::string key() const override { return "halves"; }
  void begin() override { ready.clear(); }
  void is_ready(size_t index, const at::Tensor& gradient) override {
    ready.push_back(index);
    kept.push_back(gradient * 0.5);
  }
  std::vector<at::Tensor> finish(std::vector<at::Tensor> gradients) override {
    for (size_t i = 0; i < ready.size(); ++i) gradients[ready[i]] = kept[kept.size() - ready.size() + i];
    kept.clear();
    return gradients;
  }
  std::vector<size_t> ready;
  Tensors kept;
};

TEST_F(Step, ATransformSeesEachGradientAsSoonAsItIsKnown) {
  const auto loss = [](const Tensors& p) { return (p[1] * p[0].tanh().exp()).sum(); };
  for (const bool is_captured : {true, false}) {
    SCOPED_TRACE(is_captured);
    const Tensors expected = new_leaves({torch::randn({3}, torch::kFloat64), torch::randn({3}, torch::kFloat64)});
    const Tensors got = new_leaves(expected);
    const at::Tensor unused = torch::ones({1}).requires_grad_();
    optim::SGD eager(expected, optim::SGDOptions(0.1));
    optim::SGD captured({got[0], unused, got[1]}, optim::SGDOptions(0.1));
    const auto halving = std::make_shared<Halving>();
    const auto step = capture_step(captured, {.transform = halving});
    for (int i = 0; i < 3; ++i) {
      std::optional<ag::DetectAnomalyGuard> anomaly;
      if (!is_captured) anomaly.emplace();
      eager_step(eager, loss(expected) * 0.5, {});
      step(loss(got));
    }
    EXPECT_TRUE(same_tensors(got, expected, {.of_largest = 1e-12}));
    EXPECT_EQ(halving->ready, is_captured ? (std::vector<size_t>{2, 0}) : (std::vector<size_t>{0, 2}));
    if (!is_captured) continue;
    // Halved before the rest of the backward runs.
    const Graph graph = backward_capture::last_graph();
    size_t halved = 0, last = 0;
    for (size_t i = 0; i < graph.nodes().size(); ++i) {
      const auto scope = graph.nodes()[i].provenance.scope.str();
      if (scope.find("gradients") != std::string::npos && halved == 0) halved = i;
      if (scope.find("TanhBackward") != std::string::npos) last = i;
    }
    EXPECT_GT(halved, 0);
    EXPECT_LT(halved, last) << graph.code();
  }
}

}  // namespace
}  // namespace diptych::testing
