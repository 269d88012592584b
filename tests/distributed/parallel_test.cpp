// Two processes together. Every process runs every test, in the same order.
#include <fmt/format.h>
#include <torch/nn.h>
#include <torch/types.h>

#include "diptych/base/last_error.h"
#include "diptych/distributed/gradient_reduction.h"
#include "diptych/graph/parse.h"
#include "diptych/pair/pair.h"
#include "distributed/together.h"
#include "testing/expect_error.h"

namespace diptych::distributed {
namespace {

using testing::expect_error;
using testing::message_of;

double rank() { return process().rank(); }
double size() { return process().size(); }

TEST(Parallel, SumsAndMeans) {
  const at::Tensor x = torch::full({3, 2}, rank()).t();  // of other strides
  const at::Tensor before = x.clone();
  EXPECT_TRUE(process().all_reduce(x, Reduce::kSum).equal(torch::full({2, 3}, size() * (size() - 1) / 2)));
  EXPECT_TRUE(process().all_reduce(x).equal(torch::full({2, 3}, (size() - 1) / 2)));
  EXPECT_TRUE(x.equal(before));
}

TEST(Parallel, BroadcastGivesAllWhatRankZeroHas) {
  const at::Tensor plain = torch::full({4}, rank() + 5).requires_grad_();
  const at::Tensor part = torch::full({4, 6}, rank() + 7).slice(1, 0, 6, 2);
  const at::Tensor whole = torch::full({2}, static_cast<int64_t>(rank()), torch::kLong);
  process().broadcast({plain, part, whole});
  EXPECT_TRUE(plain.detach().equal(torch::full({4}, 5.0)));
  EXPECT_TRUE(part.equal(torch::full({4, 3}, 7.0)));
  EXPECT_TRUE(whole.equal(torch::zeros({2}, torch::kLong)));
}

TEST(Parallel, BroadcastTakesModulesWithTheirBuffers) {
  torch::manual_seed(static_cast<uint64_t>(rank()));
  torch::nn::Sequential model(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4));
  for (at::Tensor& buffer : model->buffers()) buffer.fill_(rank());
  process().broadcast(*model);
  for (const auto& list : {model->parameters(), model->buffers()}) {
    for (const at::Tensor& tensor : list) {
      const auto mean = process().all_reduce(tensor.detach().to(torch::kFloat64));
      EXPECT_TRUE(mean.equal(tensor.detach().to(torch::kFloat64)));
    }
  }
}

TEST(Parallel, DisagreementIsToldToAll) {
  process().check_same("the seed", "1");
  EXPECT_EQ(message_of([] { process().check_same("the seed", std::to_string(process().rank())); }),
            fmt::format("[distributed] rank {} of 2: the processes disagree on the seed; here: {}; start all of them "
                        "with the same program and options",
                        rank(), rank()));
  process().barrier();  // nobody is left behind
}

// ---- the reduction, on tensors ----

// Of rank `r`, so that every process knows what all of them have.
at::Tensor gradient(int64_t r, size_t index, at::IntArrayRef sizes, at::ScalarType dtype = torch::kFloat64) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(1000 * r + static_cast<int64_t>(index));
  return torch::randn(sizes, generator, torch::dtype(torch::kFloat64)).to(dtype);
}

// A parameter; what it holds does not matter.
at::Tensor parameter(at::IntArrayRef sizes, at::ScalarType dtype = torch::kFloat64) {
  return torch::zeros(sizes, torch::dtype(dtype).requires_grad(true));
}

at::Tensor mean_gradient(size_t index, at::IntArrayRef sizes, at::ScalarType dtype = torch::kFloat64) {
  return (gradient(0, index, sizes, dtype) + gradient(1, index, sizes, dtype)) / 2;
}

TEST(Reduction, GivesTheMeanWhateverTheBucketsAre) {
  const std::vector<at::Tensor> parameters{parameter({3, 2}), parameter({}), parameter({7}), parameter({0, 4})};
  for (const int64_t bytes : {int64_t{1}, int64_t{56}, int64_t{1} << 20}) {
    GradientReduction reduction(process(), parameters, {.bucket_bytes = bytes, .first_bucket_bytes = bytes});
    std::vector<at::Tensor> gradients;
    for (size_t i = 0; i < parameters.size(); ++i) {
      gradients.push_back(gradient(process().rank(), i, parameters[i].sizes()));
    }
    reduction.begin();
    // Known in another order on each process.
    for (size_t i = 0; i < gradients.size(); ++i) {
      const size_t index = process().rank() == 0 ? i : gradients.size() - 1 - i;
      reduction.is_ready(index, gradients[index]);
    }
    const auto means = reduction.finish(gradients);
    for (size_t i = 0; i < means.size(); ++i) {
      EXPECT_TRUE(means[i].allclose(mean_gradient(i, parameters[i].sizes()), 0, 1e-15)) << bytes << " " << i;
      EXPECT_EQ(means[i].sizes(), parameters[i].sizes());
      // What was given is left as it was.
      EXPECT_TRUE(gradients[i].equal(gradient(process().rank(), i, parameters[i].sizes())));
    }
  }
}

TEST(Reduction, KeepsDtypesAndLayouts) {
  const auto weight = torch::zeros({2, 3, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
  const std::vector<at::Tensor> parameters{weight, parameter({3}), parameter({2}, torch::kHalf)};
  GradientReduction reduction(process(), parameters);
  EXPECT_EQ(reduction.buckets().size(), 3U);
  const auto means = reduction.finish(
      {gradient(process().rank(), 0, {2, 3, 4, 4}, torch::kFloat).contiguous(at::MemoryFormat::ChannelsLast),
       gradient(process().rank(), 1, {3}), torch::full({2}, rank(), torch::kHalf)});
  EXPECT_EQ(means[0].strides(), weight.strides());
  EXPECT_TRUE(means[0].allclose(mean_gradient(0, {2, 3, 4, 4}, torch::kFloat)));
  EXPECT_TRUE(means[1].allclose(mean_gradient(1, {3})));
  EXPECT_TRUE(means[2].equal(torch::full({2}, 0.5, torch::kHalf)));
}

// Each process lacks another gradient; one lacks everywhere.
TEST(Reduction, ZerosStandInForGradientsThatAreUndefinedHere) {
  const std::vector<at::Tensor> parameters(4, parameter({3}));
  for (const int64_t bytes : {int64_t{1}, int64_t{1} << 20}) {
    GradientReduction reduction(process(), parameters, {.bucket_bytes = bytes, .first_bucket_bytes = bytes});
    std::vector<at::Tensor> gradients(4);
    reduction.begin();
    for (size_t i = 4; i-- > 1;) {
      if (i == (process().rank() == 0 ? 2U : 3U)) continue;
      gradients[i] = gradient(process().rank(), i, {3});
      reduction.is_ready(i, gradients[i]);
    }
    const auto means = reduction.finish(gradients);
    EXPECT_TRUE(means[0].equal(torch::zeros({3}, torch::kFloat64)));
    EXPECT_TRUE(means[1].allclose(mean_gradient(1, {3})));
    EXPECT_TRUE(means[2].allclose(gradient(1, 2, {3}) / 2));
    EXPECT_TRUE(means[3].allclose(gradient(0, 3, {3}) / 2));
  }
}

TEST(Reduction, LeavesFrozenParametersAlone) {
  GradientReduction reduction(process(), {parameter({3}), torch::zeros({3}, torch::kFloat64)});
  const auto means = reduction.finish({gradient(process().rank(), 0, {3}), at::Tensor()});
  EXPECT_TRUE(means[0].allclose(mean_gradient(0, {3})));
  EXPECT_FALSE(means[1].defined());
}

TEST(Reduction, ForgetsAPassThatWasBrokenOff) {
  const std::vector<at::Tensor> parameters(2, parameter({3}));
  GradientReduction reduction(process(), parameters);
  reduction.is_ready(1, torch::full({3}, 99.0, torch::kFloat64));  // its bucket is not full: nothing is sent
  reduction.begin();
  const auto means = reduction.finish({gradient(process().rank(), 0, {3}), gradient(process().rank(), 1, {3})});
  EXPECT_TRUE(means[1].allclose(mean_gradient(1, {3})));
}

TEST(Reduction, RefusesProcessesWithOtherParameters) {
  const auto own = torch::zeros({2 + process().rank()});
  const std::string text = message_of([&] { GradientReduction(process(), {own}); });
  EXPECT_EQ(text, fmt::format("[distributed] rank {} of 2: the processes disagree on the parameters of a "
                              "GradientReduction, or its buckets; here: mean over 2 processes of group diptych, "
                              "buckets 0:Float[{}]; start all of them with the same program and options",
                              rank(), 2 + rank()));
}

// ---- collectives in graphs ----

at::Tensor all_reduce(const at::Tensor& x) {
  torch::jit::Stack stack{x, "sum", Process::group_name()};
  c10::Dispatcher::singleton().findSchemaOrThrow("_c10d_functional::all_reduce", "").callBoxed(&stack);
  return stack[0].toTensor();
}

at::Tensor wait(const at::Tensor& x) {
  torch::jit::Stack stack{x};
  c10::Dispatcher::singleton().findSchemaOrThrow("_c10d_functional::wait_tensor", "").callBoxed(&stack);
  return stack[0].toTensor();
}

// The sum twice, and once for nothing: passes would like to leave two of them out.
at::Tensor three_sums(const at::Tensor& x) {
  const at::Tensor first = wait(all_reduce(x)), second = wait(all_reduce(x));
  wait(all_reduce(x));
  return first + second * 2;
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
  return found;
}

TEST(CollectivesInGraphs, AreKeptOneByOneAndAreNotCalledByTheCapture) {
  const at::Tensor x = torch::full({3, 2}, rank() + 1).t();
  std::optional<Pair> pair;
  // Nobody else captures: a collective that ran would wait for ever.
  if (process().rank() == 0) pair.emplace(capture(three_sums, x));
  process().barrier();
  if (!pair) pair.emplace(capture(three_sums, x));
  const std::string code = pair->forward.code();
  EXPECT_EQ(count(code, "_c10d_functional.all_reduce("), 3U) << code;
  EXPECT_EQ(count(code, "_c10d_functional.wait_tensor("), 3U) << code;
  const auto [outputs, residuals] = pair->forward_call({x});
  EXPECT_TRUE(outputs[0].equal(torch::full({2, 3}, 9.0))) << outputs[0];
}

TEST(CollectivesInGraphs, SurviveText) {
  const Pair pair = capture(three_sums, torch::ones({4}));
  EXPECT_EQ(parse(pair.forward.code()).code(), pair.forward.code());
}

TEST(CollectivesInGraphs, WithoutAShapeRuleAreRefused) {
  const auto coalesced = [](const at::Tensor& x) {
    torch::jit::Stack stack{std::vector<at::Tensor>{x}, "sum", Process::group_name()};
    c10::Dispatcher::singleton().findSchemaOrThrow("_c10d_functional::all_reduce_coalesced", "").callBoxed(&stack);
    return stack[0].toTensorVector()[0];
  };
  expect_error([&] { capture(coalesced, torch::ones({4})); },
               "[trace] _c10d_functional::all_reduce_coalesced has no shape rule, and running its kernel would contact "
               "the other processes; use all_reduce, broadcast, all_gather_into_tensor or reduce_scatter_tensor, or "
               "call it outside the traced function");
  // By which a binding knows it again behind torch's own.
  EXPECT_NE(diptych::detail::last_user_error().find("has no shape rule"), std::string::npos);
}

TEST(CollectivesInGraphs, HaveTheShapesOfTheirKernels) {
  const auto call = [](const char* name, torch::jit::Stack stack) {
    c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(&stack);
    return wait(stack[0].toTensor());
  };
  const std::string group = Process::group_name();
  const std::vector<std::function<at::Tensor(const at::Tensor&)>> functions{
      [&](const at::Tensor& x) {
        return call("_c10d_functional::all_reduce", {x, "sum", group});
      },
      [&](const at::Tensor& x) {
        return call("_c10d_functional::broadcast", {x, 0, group});
      },
      [&](const at::Tensor& x) {
        return call("_c10d_functional::all_gather_into_tensor", {x, 2, group});
      },
      [&](const at::Tensor& x) {
        return call("_c10d_functional::reduce_scatter_tensor", {x, "sum", 2, group});
      }};
  for (const auto& function : functions) {
    for (const at::Tensor& x : {torch::randn({4, 3}), torch::randn({4, 1}).expand({4, 3}).contiguous()}) {
      const at::Tensor real = function(x);
      const Pair pair = capture(function, x);
      const auto& meta = pair.forward.meta(pair.forward.outputs()[0]);
      EXPECT_EQ(at::IntArrayRef(meta.size_hints()), real.sizes());
      EXPECT_EQ(at::IntArrayRef(meta.stride_hints()), real.strides());
    }
  }
}

}  // namespace
}  // namespace diptych::distributed
