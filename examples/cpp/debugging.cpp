// Answers for docs/debugging.md: why a call captures, what is kept for the backward, what each node costs, and whether
// the graph still does what the function does.
#include <diptych/diptych.h>
#include <torch/types.h>

#include <iostream>

namespace dp = diptych;

at::Tensor loss(const at::Tensor& w, const at::Tensor& x) { return x.matmul(w).tanh().square().mean(); }

int main() {
  const auto w = torch::ones({3, 2}).requires_grad_(), x = torch::ones({4, 3});

  std::cout << "1. Why does it capture?\n";
  dp::set_log_sink([](std::string_view line) { std::cout << line << '\n'; });  // else to standard error
  dp::set_log("cache");                                                        // as DIPTYCH_LOG=cache does
  const auto compiled = dp::aot_function(loss, {.argument_names = {"w", "x"}, .name = "loss"});
  for (const int64_t batch : {4, 4, 5}) (void)compiled(w, torch::ones({batch, 3}));
  (void)compiled(w.detach(), x);
  dp::set_log("");
  const dp::CacheStats stats = compiled.stats();
  std::cout << stats.hits << " hits, " << stats.misses << " misses; the last miss: " << stats.last_miss << '\n';

  std::cout << "\n2. What is kept for the backward?\n";
  const dp::Pair pair = dp::capture_with({.partition = dp::min_cut(), .argument_names = {"w", "x"}}, loss, w, x);
  std::cout << pair.explain();

  std::cout << "\n3. What does each node cost?\n";
  dp::Profile profile;
  for (int run = 0; run < 10; ++run) (void)pair.forward_program->run({w.detach(), x}, {.profile = &profile});
  for (const auto& row : profile.rows())  // profile.table() has the times, too
    std::cout << row.node << ": " << row.calls << " calls, " << row.call << ", " << row.output_bytes << " bytes\n";

  std::cout << "\n4. Does the graph still do what the function does?\n";
  double scale = 2;
  const auto scaled = dp::aot_function([&](const at::Tensor& x) { return (x * scale).sum(); }, {.check = 1});
  (void)scaled(x);
  scale = 3;  // no guard of C++ sees what a lambda captures by reference
  try {
    (void)scaled(x);
  } catch (const dp::UserError& error) {
    std::cout << error.what() << '\n';
  }
}
