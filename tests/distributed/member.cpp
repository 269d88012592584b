// A program of two processes, one of which comes to an end that its argument names.
#include <ATen/ops/ones.h>
#include <signal.h>
#include <torch/optim.h>
#include <torch/optim/sgd.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include "diptych/backward/step.h"
#include "diptych/base/error.h"
#include "diptych/distributed/gradient_reduction.h"

namespace {

using namespace diptych::distributed;

void end(const std::string& how) {
  if (how == "die") ::kill(::getpid(), SIGKILL);
  if (how == "throw") throw std::runtime_error("a mistake of rank 1");
  if (how == "exit") ::_exit(0);
  if (how == "hang") std::this_thread::sleep_for(std::chrono::hours(1));
}

// Training steps; rank 1 comes to its end in the backward of the fourth, by a hook.
void run_steps(const std::string& how, double timeout) {
  const auto process = init({.timeout = timeout});
  std::vector<at::Tensor> parameters;
  for (int i = 0; i < 3; ++i) parameters.push_back(at::ones({100}).set_requires_grad(true));
  torch::optim::SGD optimizer(parameters, torch::optim::SGDOptions(0.01));
  const auto reduction = std::make_shared<GradientReduction>(process, parameters,
                                                             BucketOptions{.bucket_bytes = 1, .first_bucket_bytes = 1});
  const auto step = diptych::capture_step(optimizer, {.transform = reduction});
  int i = 0;
  parameters[0].register_hook([&](const at::Tensor& gradient) {
    if (i == 3 && process.rank() == 1) end(how);
    return gradient;
  });
  for (; i < 5; ++i) {
    const at::Tensor before = parameters[0].detach().clone();
    try {
      step((parameters[0] * parameters[1] * parameters[2]).sum());
    } catch (...) {
      if (!parameters[0].detach().equal(before)) std::fprintf(stderr, "a step that failed changed a parameter\n");
      throw;
    }
  }
}

void run(const std::string& how, double timeout) {
  const auto process = init({.timeout = timeout});
  for (int step = 0; step < 5; ++step) {
    if (step == 3 && process.rank() == 1) end(how);
    process.all_reduce(at::ones({1000}));
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string how = argc > 1 ? argv[1] : "";
    const double timeout = argc > 2 ? std::atof(argv[2]) : 60;
    if (argc > 3 && std::string(argv[3]) == "in-step") {
      run_steps(how, timeout);
    } else {
      run(how, timeout);
    }
    return 0;
  } catch (const diptych::UserError& error) {
    std::fprintf(stderr, "UserError: %s\n", error.what());
    return 3;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 4;
  }
}
