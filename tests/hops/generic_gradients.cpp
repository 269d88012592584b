// The generic set: derivatives, and what autograd's users do around them.
#include <thread>

#include "hops/generic_set.h"

namespace diptych::testing {
namespace {

at::Tensor weighed(const Tensors& outputs) {
  at::Tensor total = torch::zeros({}, torch::kFloat64);
  double weight = 0.7;
  for (const at::Tensor& output : outputs) total = total + output.square().sum() * (weight += 0.4);
  return total;
}

Tensors grad(const Tensors& roots, const Tensors& inputs, bool create_graph = false) {
  return torch::autograd::grad(roots, inputs, {}, create_graph, create_graph, /*allow_unused=*/true);
}

constexpr Likeness kRequiringGradAlike{.rtol = 1e-10, .atol = 1e-10, .requires_grad = true};

// Runs `what` with the loop and with the operator, called in each way.
void expect_same_for_all(const Subject& subject, const Case& loop,
                         const std::function<Tensors(const Function&)>& what) {
  const Tensors expected = what(loop.written_out_for(subject));
  for (const Caller& caller : callers()) {
    SCOPED_TRACE(caller.name);
    EXPECT_TRUE(same_tensors(what(caller.wrap(loop.run_by(subject))), expected, kRequiringGradAlike));
  }
}

void first_and_second_order_are_right(const Subject& subject) {
  for (const Caller& caller : callers()) {
    SCOPED_TRACE(caller.name);
    const Case loop = cell();
    expect_derivatives_right(loop.inputs(), caller.wrap(loop.run_by(subject)));
  }
}

void third_order(const Subject& subject) {
  const Case loop = cell();
  expect_same_for_all(subject, loop, [&](const Function& function) {
    const Tensors inputs = loop.inputs();
    const Tensors first = grad({weighed(function(inputs))}, inputs, true);
    const Tensors second = grad({weighed(first)}, inputs, true);
    return grad({weighed(second)}, inputs);
  });
}

// A gradient graph that is only partly asked for.
void second_order_of_one_input(const Subject& subject) {
  const Case loop = cell();
  for (size_t i = 0; i < 4; ++i) {
    SCOPED_TRACE(c10::str("input ", i));
    expect_same_for_all(subject, loop, [&](const Function& function) {
      const Tensors inputs = loop.inputs();
      const Tensors first = grad({weighed(function(inputs))}, {inputs[i]}, true);
      return grad({first[0].sum()}, inputs);
    });
  }
}

// Each output alone: what does not reach an input leaves its gradient undefined.
void each_output_alone(const Subject& subject) {
  const Case loop{
      .leaves =
          [] {
            return Tensors{leaf64({2}), leaf64({2}, 0.1), leaf64({3, 2}, 0.3), leaf64({2}, 0.7), leaf64({2}, 0.9)};
          },
      .num_carries = 2,
      .step = [](const Tensors& c, const Tensors& x, const Tensors& w) -> StepResult {
        return {{c[0] * w[0], c[1].sin() * w[1]}, {c[0] * x[0], x[0] * 2, w[1] * 3}};
      }};
  const size_t count = loop.written_out_for(subject)(loop.inputs()).size();
  for (size_t i = 0; i < count; ++i) {
    SCOPED_TRACE(c10::str("output ", i));
    expect_same_for_all(subject, loop, [&](const Function& function) {
      const Tensors inputs = loop.inputs();
      return grad({function(inputs)[i].sum()}, inputs);
    });
  }
}

void nothing_flows(const Subject& subject) {
  const Case loop{.leaves =
                      [] {
                        return Tensors{leaf64({2}), leaf64({3, 2}, 0.3), leaf64({2}, 0.7)};
                      },
                  .step = [](const Tensors& c, const Tensors& x, const Tensors& w) -> StepResult {
                    return {{(c[0] * w[0]).detach()}, {x[0].detach() * 2}};
                  },
                  .depends_on_length = true};
  expect_as_loop(subject, loop);
}

void grad_inside(const Subject& subject) {
  const Case loop = cell();
  expect_same_for_all(subject, loop, [&](const Function& function) {
    const Function with_grad = [&](const Tensors& t) -> Tensors {
      const at::Tensor loss = weighed(function(t));
      Tensors inner = grad({loss}, t, true);
      inner.push_back(loss);
      return inner;
    };
    const Tensors inputs = loop.inputs();
    return grad({weighed(with_grad(inputs))}, inputs);
  });
}

// The whole of it captured: the operator's backward, and the backward of that, in one graph.
void grad_inside_a_capture(const Subject& subject) {
  const Case loop = cell();
  const auto gradients_of = [](const Function& function) -> Function {
    return [=](const Tensors& t) -> Tensors { return grad({weighed(function(t))}, t, true); };
  };
  expect_compiled_as({loop.leaves}, gradients_of(loop.written_out_for(subject)), gradients_of(loop.run_by(subject)),
                     {.tolerance = 1e-10});
}

void functional_grad(const Subject& subject) {
  const Case loop = cell();
  const auto loss_of = [](const Function& function) {
    return [=](const at::Tensor& w, const Tensors& t) { return weighed(function({t[0], t[1], w, t[3]})); };
  };
  const Tensors inputs = loop.inputs();
  const auto expected = diptych::grad(loss_of(loop.written_out_for(subject)))(inputs[2], inputs);
  const auto got = diptych::grad(loss_of(loop.run_by(subject)))(inputs[2], inputs);
  EXPECT_TRUE(at::allclose(expected, got, 1e-10, 1e-10));
}

void backward_twice(const Subject& subject) {
  const Case loop = cell();
  for (const Caller& caller : callers()) {
    SCOPED_TRACE(caller.name);
    const auto twice = [&](const Function& function) {
      const Tensors inputs = loop.inputs();
      const at::Tensor loss = weighed(function(inputs));
      loss.backward({}, /*retain_graph=*/true);
      loss.backward();
      expect_error<std::exception>([&] { loss.backward(); }, "Trying to backward through the graph a second time");
      return Tensors{inputs[0].grad(), inputs[1].grad(), inputs[2].grad()};
    };
    EXPECT_TRUE(same_tensors(twice(caller.wrap(loop.run_by(subject))), twice(loop.written_out_for(subject)),
                             kRequiringGradAlike));
  }
}

void backward_from_another_thread(const Subject& subject) {
  const Case loop = cell();
  expect_same_for_all(subject, loop, [&](const Function& function) {
    const Tensors inputs = loop.inputs();
    const at::Tensor loss = weighed(function(inputs));
    std::thread([&] { loss.backward(); }).join();
    return Tensors{inputs[0].grad(), inputs[1].grad(), inputs[2].grad(), inputs[3].grad()};
  });
}

void calls_from_several_threads(const Subject& subject) {
  const Case loop = cell();
  const auto gradients = [&](const Function& function) {
    const Tensors inputs = loop.inputs();
    return grad({weighed(function(inputs))}, inputs);
  };
  const Tensors expected = gradients(loop.written_out_for(subject));
  for (const Caller& caller : callers()) {
    const Function function = caller.wrap(loop.run_by(subject));
    std::vector<std::thread> threads;
    std::atomic<int> right{0};
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        for (int round = 0; round < 3; ++round) {
          right += same_tensors(gradients(function), expected, within(1e-10)) ? 1 : 0;
        }
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(right.load(), 9) << caller.name;
  }
}

void hooks(const Subject& subject) {
  const Case loop = cell();
  expect_same_for_all(subject, loop, [&](const Function& function) {
    const Tensors inputs = loop.inputs();
    int calls = 0;
    inputs[2].register_hook([&](const at::Tensor& gradient) {
      ++calls;
      return gradient * 2;
    });
    const Tensors outputs = function(inputs);
    outputs[0].register_hook([&](const at::Tensor& gradient) {
      ++calls;
      return gradient + 1;
    });
    weighed(outputs).backward();
    EXPECT_EQ(calls, 2);
    return Tensors{inputs[0].grad(), inputs[1].grad(), inputs[2].grad(), inputs[3].grad()};
  });
}

}  // namespace

const std::vector<Check>& gradient_checks() {
  static const std::vector<Check> kAll{
      {"FirstAndSecondOrderAreRight", first_and_second_order_are_right},
      {"ThirdOrder", third_order},
      {"SecondOrderOfOneInput", second_order_of_one_input},
      {"EachOutputAlone", each_output_alone},
      {"NothingFlows", nothing_flows},
      {"GradInside", grad_inside},
      {"GradInsideACapture", grad_inside_a_capture},
      {"FunctionalGrad", functional_grad},
      {"BackwardTwice", backward_twice},
      {"BackwardFromAnotherThread", backward_from_another_thread},
      {"CallsFromSeveralThreads", calls_from_several_threads},
      {"Hooks", hooks},
  };
  return kAll;
}

}  // namespace diptych::testing
