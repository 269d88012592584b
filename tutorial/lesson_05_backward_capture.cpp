// Lesson 5: a whole backward pass as one graph.
//
// Lessons 1 to 4 capture a function and get its backward. This one captures what backward() itself does: every autograd
// node, whoever made it, hooks and the accumulation of gradients among them. Run it as
//   lesson_05_backward_capture
// Every claim below is checked as the program runs; it stops at the first that does not hold.
#include <diptych/diptych.h>
#include <torch/torch.h>

#include <iostream>
#include <stdexcept>

namespace dp = diptych;

namespace {

void check(bool holds, const char* claim) {
  if (!holds) throw std::runtime_error(std::string("this does not hold: ") + claim);
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

/// 1. The graph of a model's backward. Each node carries the autograd node that it comes from; gradients are
/// accumulated by autograd's own nodes, which stand in the graph as calls.
void one_graph() {
  torch::nn::Sequential model(torch::nn::Linear(3, 4), torch::nn::Tanh(), torch::nn::Linear(4, 1));
  const at::Tensor x = torch::randn({5, 3});
  const dp::BackwardCapture capture;
  model->forward(x).square().mean().backward();
  const std::string code = dp::backward_capture::last_graph().code();
  std::cout << "The backward of a small model:\n" << code << '\n';
  check(contains(code, "# TanhBackward0") && contains(code, "# AccumulateGrad"), "nodes say where they come from");
  check(model->parameters()[0].grad().defined(), "gradients are accumulated as in eager");
}

/// 2. Two compiled functions with eager code between them: two forwards, and yet one backward.
void a_break_in_the_forward() {
  const auto first = dp::aot_function([](const at::Tensor& x) { return torch::tanh(x * 2); }, {.name = "first"});
  const auto second = dp::aot_function([](const at::Tensor& x) { return torch::sin(x).sum(); }, {.name = "second"});
  const at::Tensor x = torch::randn({3}, torch::requires_grad());
  const auto model = [&] {
    const at::Tensor hidden = first(x);
    // Eager code that no capture of the forward can hold: it looks at a value.
    return second(hidden.sum().item<double>() > 0 ? hidden * 3 : hidden * 2);
  };
  const dp::BackwardCapture capture;
  model().backward();
  const std::string code = dp::backward_capture::last_graph().code();
  std::cout << "One backward over two compiled functions:\n" << code << '\n';
  check(contains(code, "DiptychBackward(first)") && contains(code, "DiptychBackward(second)"), "both are inlined");
  check(contains(code, "# MulBackward"), "and the eager code between them is there");
}

/// 3. A hook is a call in the graph, in eager's place.
void a_hook() {
  const at::Tensor x = torch::ones({2}, torch::requires_grad());
  const at::Tensor y = x * 3;
  int calls = 0;
  y.register_hook([&](const at::Tensor& gradient) {
    ++calls;
    return gradient * 10;
  });
  const dp::BackwardCapture capture;
  y.sum().backward();
  std::cout << "A hook in the graph:\n" << dp::backward_capture::last_graph().code() << '\n';
  check(calls == 1, "a capture calls no hook; the pass calls it once");
  check(x.grad().equal(torch::full({2}, 30.0)), "and uses what it gives");
}

/// 4. Later passes like the first run its graph. Each other one says why it could not. Sizes that change become
/// dynamic: the second capture serves all further ones, but 0 and 1, which are cases of their own.
void misses() {
  dp::backward_capture::reset();
  const dp::BackwardCapture capture;
  const auto pass = [](int64_t size, bool uses_exp, bool has_hook) {
    const at::Tensor x = torch::ones({size}, torch::requires_grad());
    const at::Tensor y = uses_exp ? (x * 2).exp() : (x * 2).tanh();
    if (has_hook) y.register_hook([](const at::Tensor& gradient) { return gradient; });
    y.sum().backward();
  };
  pass(10, false, false);
  pass(10, false, false);
  pass(20, false, false);
  pass(35, false, false);
  pass(1, false, false);
  pass(20, true, false);
  pass(20, true, true);
  const auto statistics = dp::backward_capture::statistics();
  std::cout << statistics.captures << " captures, " << statistics.hits << " hits:\n";
  for (const std::string& miss : statistics.misses) std::cout << "  " << miss << '\n';
  for (const auto& [reason, count] : statistics.misses_by_reason) std::cout << "  " << count << " x " << reason << '\n';
  check(statistics.captures == 5 && statistics.hits == 2, "two passes were like others, one of them with a new size");
  check(contains(statistics.misses[1], "changed 10 -> 20: now dynamic"), "a size is named with both values");
  check(contains(statistics.misses[3], "new autograd node ExpBackward0"), "and so is a node");
}

/// 5. Ten batch sizes, two captures; the graph has expressions where sizes were.
void batch_sizes() {
  dp::backward_capture::reset();
  const at::Tensor w = torch::randn({3, 2}, torch::requires_grad());
  const dp::BackwardCapture capture;
  for (const int64_t batch : {4, 6, 5, 8, 3, 2, 7, 12, 16, 20}) {
    torch::tanh(torch::matmul(torch::ones({batch, 3}), w)).square().mean().backward();
  }
  const auto statistics = dp::backward_capture::statistics();
  std::cout << "Ten batch sizes: " << statistics.captures << " captures, " << statistics.hits << " hits:\n"
            << dp::backward_capture::last_graph().code() << '\n';
  check(statistics.captures == 2 && statistics.hits == 8, "the second capture served them all");
}

/// 6. A training step as two graphs: the forward, and its backward with clipping and the optimizer's update.
void a_training_step() {
  torch::nn::Linear model(3, 1);
  torch::optim::AdamW optimizer(model->parameters(), 1e-2);
  const auto forward = dp::aot_function([&](const at::Tensor& x) { return model->forward(x).square().mean(); });
  auto step = dp::capture_step(optimizer, {.max_gradient_norm = 1.0});
  const at::Tensor x = torch::ones({4, 3});
  const double before = forward(x).item<double>();
  dp::backward_capture::reset();
  for (int i = 0; i < 10; ++i) step(forward(x));
  const std::string code = dp::backward_capture::last_graph().code();
  std::cout << "The second graph of a training step:\n" << code << '\n';
  check(forward(x).item<double>() < before, "it trains");
  check(contains(code, "hop.update_parameters"), "the update is a node of the graph");
  check(dp::backward_capture::statistics().captures == 1, "captured once for ten steps");
}

}  // namespace

int main() {
  torch::manual_seed(0);
  one_graph();
  a_break_in_the_forward();
  a_hook();
  misses();
  batch_sizes();
  a_training_step();
  std::cout << "lesson 5: all checks hold\n";
  return 0;
}
