// Lesson 4: memory.
//
// What a backward reads has to be kept from the forward, or computed again. This lesson goes from the partitioners,
// which choose for a whole function, to checkpoints, which say it of a part, and to scans that keep but a few carries
// of thousands. Run it as
//   lesson_04_memory
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

constexpr int64_t kWidth = 64;

at::Tensor block(const at::Tensor& x, const at::Tensor& w) {
  const at::Tensor hidden = dp::name_residual(torch::matmul(x, w), "hidden");
  return x + torch::gelu(hidden).sin();
}

at::Tensor plain(const at::Tensor& x, const std::vector<at::Tensor>& weights) {
  at::Tensor y = x;
  for (const at::Tensor& w : weights) y = block(y, w);
  return y.square().mean();
}

template <class F>
int64_t kept(const F& function, const dp::Partitioner& partition, const at::Tensor& x,
             const std::vector<at::Tensor>& weights) {
  return dp::residual_bytes(dp::capture_with({.partition = partition}, function, x, weights).split);
}

// 1. A partitioner chooses what to keep. One tensor of 64 x 64 floats is 16 KiB.
void partitioners(const at::Tensor& x, const std::vector<at::Tensor>& weights) {
  const int64_t eager = kept(plain, dp::default_partition(), x, weights);
  const int64_t least = kept(plain, dp::min_cut(), x, weights);
  std::cout << "kept by default " << eager << " bytes, by min_cut " << least << " bytes\n";
  check(least < eager, "min_cut keeps less than eager does");
}

// 2. A checkpoint says that of a part of the function its inputs are kept and nothing else. Every partitioner obeys.
// Policies soften that: they keep matrix products, say, or what was given a name.
void checkpoints(const at::Tensor& x, const std::vector<at::Tensor>& weights) {
  const auto with = [&](const dp::CheckpointPolicy& policy) {
    return [=](const at::Tensor& start, const std::vector<at::Tensor>& ws) {
      const auto step = dp::checkpoint(block, policy);
      at::Tensor y = start;
      for (const at::Tensor& w : ws) y = step(y, w);
      return y.square().mean();
    };
  };
  const int64_t one = static_cast<int64_t>(x.nbytes());
  const int64_t none = kept(with(dp::save_nothing()), dp::default_partition(), x, weights);
  const int64_t named = kept(with(dp::save_names({"hidden"})), dp::default_partition(), x, weights);
  std::cout << "kept with checkpoints " << none << " bytes, with the named values " << named << " bytes\n";
  check(none <= static_cast<int64_t>(weights.size()) * one,
        "of each block its input is kept, of the first not even that");
  check(named == none + static_cast<int64_t>(weights.size()) * one, "and one named value of each block");
  // What is computed again is the same to the last bit.
  const auto a = torch::autograd::grad({plain(x, weights)}, {weights[0]})[0];
  const auto b = torch::autograd::grad({with(dp::save_nothing())(x, weights)}, {weights[0]})[0];
  check(torch::equal(a, b), "gradients do not change");
}

// 3. A long scan keeps the residuals of every step; with max_saved_carries it keeps so many carries, and runs segments
// of steps again. How often is known beforehand: see the table in benchmarks/README.md.
void long_scans() {
  const auto w = torch::randn({8, 8}).mul(0.3).requires_grad_();
  const auto run = [&](const dp::ScanOptions& options) {
    const auto step = [&](const at::Tensor& h, const std::tuple<>&) {
      return std::pair{torch::tanh(h.mm(w) + 0.1), std::tuple<>()};
    };
    return dp::scan(step, torch::ones({4, 8}), std::tuple<>(), options).first.sum();
  };
  const auto all = torch::autograd::grad({run({.length = 2000})}, {w})[0];
  const auto few = torch::autograd::grad({run({.length = 2000, .max_saved_carries = 10})}, {w})[0];
  check(torch::allclose(all, few, 1e-4, 1e-6), "ten carries kept of two thousand give the same gradient");
}

}  // namespace

int main() {
  torch::manual_seed(2);
  const at::Tensor x = torch::randn({kWidth, kWidth});
  std::vector<at::Tensor> weights;
  for (int i = 0; i < 4; ++i) weights.push_back(torch::randn({kWidth, kWidth}).mul(0.1).requires_grad_());
  partitioners(x, weights);
  checkpoints(x, weights);
  long_scans();
  std::cout << "lesson 4: all checks hold\n";
}
