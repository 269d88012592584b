// Lesson 3: scan.
//
// A loop in C++ is written out when it is captured: a thousand steps are a thousand copies of the step. dp::scan keeps
// it a loop. Its body is captured once, and what comes back for the backward is a loop as well, over the body's
// backward. This lesson takes a recurrent network through that, then the loops whose length the data decide. Run it as
//   lesson_03_scan
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

struct Cell {
  at::Tensor w, u, b;
  DIPTYCH_FIELDS(w, u, b)
};

Cell make_cell() {
  torch::manual_seed(1);
  return {torch::randn({3, 4}).requires_grad_(), torch::randn({4, 4}).requires_grad_(),
          torch::zeros({4}).requires_grad_()};
}

// 1. The body takes the carry, which goes from step to step, and a slice of the input. It returns the next carry and
// this step's output, which are stacked. Here both are the same tensor: that is fine, copies are made where they must.
at::Tensor run(const Cell& cell, const at::Tensor& xs) {
  const auto step = [&](const at::Tensor& h, const at::Tensor& x) {
    const at::Tensor next = torch::tanh(x.mm(cell.w) + h.mm(cell.u) + cell.b);
    return std::pair{next, next};
  };
  const auto [last, states] = dp::scan(step, torch::zeros({2, 4}), xs);
  return states;
}

// 2. Called as it stands, it does what the loop would do, gradients included: also those of tensors that the body
// merely captured.
void runs_as_the_loop(const Cell& cell, const at::Tensor& xs) {
  at::Tensor h = torch::zeros({2, 4});
  std::vector<at::Tensor> states;
  for (int64_t t = 0; t < xs.size(0); ++t) {
    h = torch::tanh(xs[t].mm(cell.w) + h.mm(cell.u) + cell.b);
    states.push_back(h);
  }
  const at::Tensor loop = torch::stack(states), ours = run(cell, xs);
  check(torch::allclose(ours, loop), "a scan gives what the loop gives");
  const auto a = torch::autograd::grad({ours.square().sum()}, {cell.w, cell.u, cell.b});
  const auto b = torch::autograd::grad({loop.square().sum()}, {cell.w, cell.u, cell.b});
  for (size_t i = 0; i < a.size(); ++i) check(torch::allclose(a[i], b[i], 1e-4, 1e-5), "and its gradients");
}

// 3. Captured, it is one node, whose body stands below it. The backward's scan goes the other way; its carries are the
// gradient of the carry and what it still has to sum.
dp::Pair look_at_the_pair(const Cell& cell, const at::Tensor& xs) {
  const dp::Pair pair = dp::capture_with({.argument_names = {"cell", "xs"}, .name = "rnn"}, run, cell, xs);
  std::cout << "The forward graph:\n" << pair.forward.code() << '\n';
  std::cout << "The backward graph:\n" << pair.backward.code() << '\n';
  check(pair.forward.code().find("hop.scan") != std::string::npos, "the forward is a scan");
  check(pair.backward.code().find("hop.scan") != std::string::npos, "so is the backward");
  const dp::Pair longer = dp::capture(run, cell, torch::randn({500, 2, 3}));
  check(longer.forward.nodes().size() == pair.forward.nodes().size(), "a longer scan has no larger graph");
  std::cout << pair.explain() << '\n';
  return pair;
}

// 4. The pair can be called by hand, as in lesson 1: residuals in, gradients out.
void call_the_pair(const dp::Pair& pair, const Cell& cell, const at::Tensor& xs) {
  auto [outputs, residuals] = pair.forward_call({cell.w, cell.u, cell.b, xs});
  const auto gradients = pair.backward_call(residuals, {torch::ones_like(outputs[0])});
  const auto eager = torch::autograd::grad({run(cell, xs).sum()}, {cell.w});
  check(torch::allclose(gradients[0], eager[0], 1e-4, 1e-5), "the backward graph gives the gradient of w");
}

// 5. Where the data decide how long a loop is, it is a while_loop; which of two ways to go, a cond. Both are part of a
// captured function like any other operator, and gradients flow through them.
void loops_that_the_data_decide() {
  const auto root = [](const at::Tensor& a) {  // the square root, by Newton's method
    const auto start = std::pair{torch::ones_like(a), torch::ones({}, a.options())};
    const auto improve = [&](const std::pair<at::Tensor, at::Tensor>& now) {
      const at::Tensor next = (now.first + a / now.first) / 2;
      return std::pair{next, (next - now.first).detach().abs().max()};
    };
    return dp::while_loop([](const auto& now) { return now.second > 1e-12; }, improve, start).first;
  };
  const auto safe_root = dp::aot_function([&](const at::Tensor& a) {
    return dp::cond((a > 0).all(), root, [](const at::Tensor& t) { return torch::zeros_like(t); }, a);
  });
  const auto a = torch::tensor({2.0, 9.0}, torch::kFloat64).requires_grad_();
  const auto y = safe_root(a);
  const auto gradient = torch::autograd::grad({y.sum()}, {a})[0];
  check(torch::allclose(y, a.sqrt()), "the loop found the roots");
  check(torch::allclose(gradient, 0.5 / a.sqrt()), "and their derivative");
  const auto negative = torch::tensor({-2.0, -9.0}, torch::kFloat64).requires_grad_();
  check(safe_root(negative).abs().sum().item<double>() == 0, "the other branch");
  check(safe_root.stats().misses == 1, "one capture holds both branches, and any number of steps");
}

}  // namespace

int main() {
  const Cell cell = make_cell();
  const at::Tensor xs = torch::randn({5, 2, 3});
  runs_as_the_loop(cell, xs);
  const dp::Pair pair = look_at_the_pair(cell, xs);
  call_the_pair(pair, cell, xs);
  loops_that_the_data_decide();
  std::cout << "lesson 3: all checks hold\n";
}
