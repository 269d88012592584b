// Random programs with checkpoint regions inside each other, of random policies, against eager.
#include <fmt/format.h>
#include <random>

#include "testing/eager_check.h"
#include "testing/rotation.h"

namespace diptych::testing {
namespace {

/// Runs one random program; the same seed is the same program at every call.
class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : random_(seed) {}

  /// Returns the last value alone, or with others that are computed from it or it from them.
  Tensors run(const Tensors& leaves, bool alone) {
    values_ = leaves;
    name_residual(leaves[0], "kept");  // or a program whose steps name nothing so would be refused
    add_steps(/*depth=*/0, 4 + pick(8));
    if (alone) return {values_.back()};
    Tensors outputs{values_.back(), values_.at(leaves.size() + pick(values_.size() - leaves.size()))};
    if (pick(2) == 0) outputs.push_back(values_.back().sum());
    return outputs;
  }

 private:
  size_t pick(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random_); }
  at::Tensor value() {
    const size_t recent = std::min<size_t>(values_.size(), 5);
    return pick(4) == 0 ? values_[pick(values_.size())] : values_[values_.size() - 1 - pick(recent)];
  }

  CheckpointPolicy policy() {
    const auto share = static_cast<double>(pick(11)) / 10;
    const std::vector<CheckpointPolicy> all{
        save_nothing(),         save_nothing(),       save_everything_but_pointwise(),
        save_matrix_products(), save_names({"kept"}), save_within_budget(share)};
    return all[pick(all.size())];
  }

  void add_steps(size_t depth, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      if (depth < 3 && pick(4) == 0) {
        const CheckpointRegion region(policy());
        add_steps(depth + 1, 1 + pick(5));
      } else {
        at::Tensor result = step();
        values_.push_back(pick(4) == 0 ? name_residual(result, pick(2) == 0 ? "kept" : "other") : result);
      }
    }
  }

  at::Tensor step() {
    const at::Tensor a = value();
    const at::Tensor b = value();
    switch (pick(13)) {
      case 0:
        return torch::mm(a, b).tanh();
      case 1:
        return a * b;
      case 2:
        return a.sin() + b;
      case 3:
        return torch::gelu(a);
      case 4:
        return torch::dropout(a, 0.3, true);
      case 5:
        return torch::softmax(a, 1);
      case 6:
        return torch::layer_norm(a, {a.size(1)}) - b;
      case 7:
        return a.t().sigmoid();
      case 8:
        return a.clone().mul_(b).add_(1);
      case 9: {
        at::Tensor copy = a.clone();
        copy.select(0, 1).copy_(b.select(1, 0).exp());
        return copy.tanh_();
      }
      case 10:
        return torch::cat({a.narrow(1, 0, 2), b.narrow(1, 2, a.size(1) - 2)}, 1);
      case 11:
        return a.reshape({-1}).view_as(b) * b.mean();
      default:
        return a.clamp_min(0.05) * b.detach();
    }
  }

  std::mt19937_64 random_;
  Tensors values_;
};

TEST(CheckpointRandom, ProgramsDoAsInEager) {
  const auto leaves = [] {
    Tensors made;
    for (int i = 0; i < 3; ++i) {
      // Norms of nearly equal numbers leave few digits of float32.
      const auto waves = torch::arange(16.0, torch::kDouble).mul(0.3 + i).sin().reshape({4, 4});
      made.push_back(waves.mul(0.7).requires_grad_());
    }
    return made;
  };
  for (const uint64_t seed : rotating_seeds(0, 150)) {
    const bool alone = seed % 2 == 0;
    const Function function = [&](const Tensors& t) { return RandomProgram(seed).run(t, alone); };
    for (const auto& partition : {default_partition(), min_cut(), memory_budget(0.3)}) {
      SCOPED_TRACE(fmt::format("program {} with {}", seed, partition.name));
      CheckOptions options;
      options.aot.partition = partition;
      // Gradients of a result that another is computed from are added up in parts, each in eager's order.
      options.tolerance = alone && options.aot.backend == "interpreter" ? 0 : 1e-5;
      expect_as_eager(leaves, function, options);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace diptych::testing
