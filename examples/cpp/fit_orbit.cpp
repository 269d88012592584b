// Finds a planet's orbit from where it was seen. Where a planet stands at a time is the solution of Kepler's equation,
// E - e sin E = M, which Newton's method finds in as many steps as it takes: a dp::while_loop inside the loss, which
// gradients flow through. The eccentricity and the phase of the orbit are then found by gradient descent.
#include <diptych/diptych.h>
#include <fmt/format.h>
#include <torch/optim/lbfgs.h>

#include <iostream>

namespace dp = diptych;

namespace {

struct Orbit {
  at::Tensor eccentricity, phase;  // f64[]
  DIPTYCH_FIELDS(eccentricity, phase)
};

struct Newton {
  at::Tensor angle, change, steps;
  DIPTYCH_FIELDS(angle, change, steps)
};

/// Solves E - e sin E = M for E, for every M at once. Shapes: f64[n] -> f64[n].
at::Tensor eccentric_anomaly(const at::Tensor& e, const at::Tensor& mean_anomaly) {
  const Newton start{mean_anomaly + e * mean_anomaly.sin(), torch::ones({}, torch::kFloat64),
                     torch::zeros({}, torch::kLong)};
  const auto unfinished = [](const Newton& now) { return (now.change > 1e-12).logical_and(now.steps < 50); };
  const auto improve = [&](const Newton& now) {
    const at::Tensor miss = now.angle - e * now.angle.sin() - mean_anomaly;
    const at::Tensor step = miss / (1 - e * now.angle.cos());
    return Newton{now.angle - step, step.detach().abs().max(), now.steps + 1};
  };
  return dp::while_loop(unfinished, improve, start).angle;
}

/// Where the planet stands, in units of the orbit's long half axis. Shapes: times f64[n] -> f64[n, 2].
at::Tensor positions(const Orbit& orbit, const at::Tensor& times) {
  const at::Tensor& e = orbit.eccentricity;
  const at::Tensor angle = eccentric_anomaly(e, times + orbit.phase);
  return torch::stack({angle.cos() - e, (1 - e * e).sqrt() * angle.sin()}, 1);
}

}  // namespace

int main() {
  torch::manual_seed(0);
  const Orbit real{torch::tensor(0.617, torch::kFloat64), torch::tensor(0.4, torch::kFloat64)};
  const at::Tensor times = torch::linspace(0, 6.2, 40, torch::kFloat64);
  const at::Tensor seen = positions(real, times) + 1e-4 * torch::randn({40, 2}, torch::kFloat64);

  const Orbit guess{torch::tensor(0.1, torch::kFloat64).requires_grad_(),
                    torch::tensor(0.0, torch::kFloat64).requires_grad_()};
  const auto loss =
      dp::aot_function([&](const Orbit& orbit) { return (positions(orbit, times) - seen).square().sum(1).mean(); });
  torch::optim::LBFGS optimizer({guess.eccentricity, guess.phase},
                                torch::optim::LBFGSOptions(1).max_iter(60).line_search_fn("strong_wolfe"));
  int evaluations = 0;
  optimizer.step([&] {
    ++evaluations;
    optimizer.zero_grad();
    const at::Tensor value = loss(guess);
    value.backward();
    return value;
  });
  std::cout << fmt::format(
      "eccentricity {:.4f} (real: {:.4f}), phase {:.4f} (real: {:.4f}), after {} evaluations of one "
      "captured loss\n",
      guess.eccentricity.item<double>(), real.eccentricity.item<double>(), guess.phase.item<double>(),
      real.phase.item<double>(), evaluations);
  const bool found = (guess.eccentricity - real.eccentricity).abs().item<double>() < 1e-3;
  return found && loss.stats().misses == 1 ? 0 : 1;
}
