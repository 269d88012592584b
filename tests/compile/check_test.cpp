// Calls that are compared with the original function: what is right passes and leaves no trace, and what is not is
// found and named.
#include <ATen/Context.h>
#include <torch/nn.h>

#include "diptych/pair/module.h"
#include "testing/eager_check.h"

namespace diptych::testing {
namespace {

const AotOptions kChecked{.check = 1, .name = "f"};

at::Tensor three_numbers() { return torch::tensor({0.5F, -1.0F, 2.0F}).requires_grad_(); }

// What an error of a check says; empty if there is none.
template <class Action>
std::string said_by(const Action& action) {
  try {
    action();
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

void expect_words(const std::string& text, const std::vector<std::string>& words) {
  for (const auto& word : words) EXPECT_NE(text.find(word), std::string::npos) << "no \"" << word << "\" in: " << text;
}

// Runs a graph, and adds to the first result.
class Off final : public Executable {
 public:
  explicit Off(const Graph& graph) : program_(graph) {}
  Tensors run(Tensors&& inputs) const override {
    Tensors outputs = program_.run(std::move(inputs));
    for (at::Tensor& output : outputs) {
      if (output.defined()) return output = output + 1, outputs;
    }
    return outputs;
  }

 private:
  Program program_;
};
Compiler off() {
  return [](const Graph& graph) { return std::make_shared<Off>(graph); };
}

TEST(Check, PassesWhatIsAsInEager) {
  const CheckOptions options{.aot = kChecked};
  const auto two = [] { return Tensors{three_numbers(), torch::ones({3}).requires_grad_()}; };
  const auto check = [&](const Function& function) { expect_as_eager(two, function, options); };
  check([](const Tensors& t) -> Tensors { return {(t[0] * t[1]).sin().sum(), t[0].exp(), t[1]}; });
  check([](const Tensors& t) -> Tensors {
    at::Tensor y = t[0] * 2;
    y.mul_(t[1]);
    return {y.view({3, 1}), y, y[0]};
  });
  check([](const Tensors& t) -> Tensors { return {at::dropout(t[0], 0.5, true) * t[1], at::rand_like(t[0])}; });
  check([](const Tensors& t) -> Tensors { return {t[0].detach().mul(2), t[0].t(), t[0] > 0}; });
}

TEST(Check, PassesArgumentsThatAreWrittenTo) {
  const Inputs inputs{[] {
                        return Tensors{three_numbers(), torch::arange(6.0).requires_grad_()};
                      },
                      [](const Tensors& leaves) {
                        const at::Tensor base = leaves[1] * 1;
                        return Tensors{leaves[0], leaves[0] * 1, base, base.view({2, 3})};
                      }};
  const CheckOptions options{.aot = kChecked, .tolerance = 1e-6};
  expect_as_eager(
      inputs,
      [](const Tensors& t) -> Tensors {
        return {t[1].mul_(t[0]), t[1] * 2};
      },
      options);
  expect_as_eager(
      inputs,
      [](const Tensors& t) -> Tensors {
        return {t[3].mul_(2.0), t[2] * t[0].sum()};
      },
      options);
}

TEST(Check, LeavesGeneratorsGradientsAndHooksAlone) {
  int hooks = 0;
  const auto run = [&](const AotOptions& options) {
    torch::manual_seed(3);
    const at::Tensor x = three_numbers();
    x.register_hook([&](const at::Tensor&) { ++hooks; });
    const auto f = aot_function([](const at::Tensor& t) { return at::dropout(t, 0.5, true).sum(); }, options);
    Tensors seen{f(x), f(x)};
    seen[1].backward();
    seen.push_back(x.grad());
    seen.push_back(torch::rand({2}));
    return seen;
  };
  const Tensors plain = run({}), checked = run(kChecked);
  EXPECT_EQ(hooks, 2);
  EXPECT_TRUE(same_tensors(checked, plain));
}

TEST(Check, RunsTheOriginalOnCopiesOfAModulesTensors) {
  torch::nn::Sequential net(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4), torch::nn::Linear(4, 1));
  auto checked = aot_module(net, {.check = 1});
  const at::Tensor x = torch::randn({5, 3});
  const auto versions = [&] {
    std::vector<int64_t> found;
    for (const auto& parameter : net->parameters()) found.push_back(static_cast<int64_t>(parameter._version()));
    return found;
  };
  const auto before = versions();
  checked(x).sum().backward();
  EXPECT_EQ(versions(), before);
  EXPECT_EQ(net->named_buffers()["1.num_batches_tracked"].item<int>(), 1);
  EXPECT_TRUE(net->parameters()[0].grad().defined());
  EXPECT_EQ(checked.stats().checks, 1U);
}

TEST(Check, FindsANumberThatIsNotGuarded) {
  double scale = 2;
  const auto f = aot_function([&](const at::Tensor& x) { return (x.sin() * scale).cos(); }, kChecked);
  f(three_numbers());
  scale = 3;
  expect_words(said_by([&] { f(three_numbers()); }),
               {"[check f] result 'out' differs from the original function's: the values:", "originally", "compiled",
                "first node whose value differs: ", "aten.mul.", "2.0", "f32[3]: 1.43828"});
  scale = 2;
  EXPECT_EQ(said_by([&] { f(three_numbers()); }), "");
}

TEST(Check, FindsAnotherWayThroughTheFunction) {
  bool is_training = true;
  const auto f = aot_function(
      [&](const at::Tensor& x) {
        const at::Tensor y = x * 2;
        return is_training ? y.tanh() : y.sigmoid();
      },
      kChecked);
  f(three_numbers());
  is_training = false;
  expect_words(said_by([&] { f(three_numbers()); }),
               {"the two diverge where the graph has", "aten.tanh", "calls sigmoid"});
}

TEST(Check, FindsACompilerThatIsWrong) {
  const auto f = [](const at::Tensor& x) { return (x * x).tanh(); };
  expect_words(said_by([&] { aot_function(f, {.inference_compiler = off(), .check = 1})(three_numbers().detach()); }),
               {"result 'out'", "the values", "no node's value differs when the interpreter runs the graph"});
  const auto wrong_backward = aot_function(f, {.backward_compiler = off(), .check = 1, .name = "g"});
  const at::Tensor x = three_numbers();
  const at::Tensor y = wrong_backward(x);
  expect_words(said_by([&] { y.sum().backward(); }), {"[check g] the gradient of argument 'arg0'", "the values"});
}

TEST(Check, FindsAnErrorThatTheOriginalThrows) {
  bool throws = false;
  const auto f = aot_function(
      [&](const at::Tensor& x) {
        if (throws) throw std::runtime_error("out of luck");
        return x * 2;
      },
      kChecked);
  f(three_numbers());
  throws = true;
  expect_words(said_by([&] { f(three_numbers()); }),
               {"the call differs from the original", "an error (out of luck)", "results"});
}

TEST(Check, FindsWritesThatAreMissing) {
  bool writes = false;
  const at::Tensor count = torch::zeros({2});
  const auto f = aot_function(
      [&](const at::Tensor& x) {
        if (writes) count.add_(1);
        return x * 2;
      },
      kChecked);
  f(three_numbers());
  writes = true;
  expect_words(said_by([&] { f(three_numbers()); }), {"a tensor that is not an argument", "written to originally"});
  EXPECT_EQ(count.sum().item<float>(), 0);
}

TEST(Check, FindsDrawsThatAreMissing) {
  bool draws = false;
  const auto f = aot_function(
      [&](const at::Tensor& x) {
        if (draws) at::rand({2});
        return x * 2;
      },
      kChecked);
  f(three_numbers());
  draws = true;
  expect_words(said_by([&] { f(three_numbers()); }), {"the generator of random numbers"});
}

TEST(Check, FindsResultsThatShareMemoryOtherwise) {
  bool clones = true;
  const auto f = aot_function(
      [&](const at::Tensor& x) {
        const at::Tensor y = x.detach() * 2;
        return Tensors{y, clones ? y.clone() : y.detach()};
      },
      kChecked);
  f(three_numbers());
  clones = false;
  expect_words(said_by([&] { f(three_numbers()); }), {"which tensors it shares memory", "result '0'"});
}

TEST(Check, ComparesEveryNthCall) {
  double scale = 2;
  const auto f = aot_function([&](const at::Tensor& x) { return x * scale; }, {.check_constants = 0, .check = 3});
  f(three_numbers());
  scale = 3;
  EXPECT_EQ(said_by([&] { f(three_numbers()); }), "");
  EXPECT_EQ(f.stats().checks, 0U);
  EXPECT_NE(said_by([&] { f(three_numbers()); }), "");
  EXPECT_EQ(f.stats().checks, 1U);
  EXPECT_EQ(said_by([&] { f(three_numbers()); }), "");
}

TEST(Check, TakesATolerance) {
  double scale = 1;
  const auto make = [&](double tolerance) {
    scale = 1;
    return aot_function([&](const at::Tensor& x) { return x * scale; }, {.check = 1, .check_tolerance = tolerance});
  };
  const auto exact = make(0), wide = make(0.1);
  exact(three_numbers()), wide(three_numbers());
  scale = 1.001;
  EXPECT_NE(said_by([&] { exact(three_numbers()); }), "");
  EXPECT_EQ(said_by([&] { wide(three_numbers()); }), "");
}

TEST(Check, ComparesNoValuesWhereNoneWereSet) {
  const auto f = aot_function(
      [](const at::Tensor& x) {
        return Tensors{at::empty({64}), at::empty_like(x), x * 2};
      },
      kChecked);
  for (int call = 0; call < 3; ++call) EXPECT_EQ(said_by([&] { f(three_numbers()); }), "");
}

TEST(Check, FollowsEachBackwardOfACall) {
  const auto f = aot_function([](const at::Tensor& x) { return Tensors{x.sin(), (x * x).sum()}; }, kChecked);
  const at::Tensor x = three_numbers();
  const Tensors y = f(x);
  EXPECT_EQ(said_by([&] {
              y[0].sum().backward({}, /*retain_graph=*/true);
              y[1].backward({}, /*retain_graph=*/true);
              y[1].backward();
            }),
            "");
  EXPECT_TRUE(at::allclose(x.grad(), x.detach().cos() + 4 * x.detach()));
}

}  // namespace
}  // namespace diptych::testing
