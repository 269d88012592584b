// The passes over scans change no result: random bodies, each pass alone and all of them, against the loop.
#include <cstdlib>

#include "hops/random_body.h"
#include "testing/rotation.h"

namespace diptych::testing {
namespace {

const char* const kPasses[] = {"drop_dead_scan_parts", "drop_constant_carries", "regroup_scan_sums",
                               "hoist_from_scans",     "sink_from_scans",       "reuse_scan_stacks",
                               "simplify_scan_bodies"};

// Switches off all passes but one for as long as it lives; none is on for "".
class OnlyPass {
 public:
  explicit OnlyPass(const std::string& name) {
    std::string off;
    for (const std::string pass : kPasses) {
      if (pass != name) off += (off.empty() ? "" : ",") + pass;
    }
    ::setenv("DIPTYCH_PASSES_OFF", off.c_str(), 1);
  }
  ~OnlyPass() { ::unsetenv("DIPTYCH_PASSES_OFF"); }
  OnlyPass(const OnlyPass&) = delete;
  OnlyPass& operator=(const OnlyPass&) = delete;
};

Tensors part(const Tensors& list, size_t begin, size_t count) {
  return {list.begin() + static_cast<int64_t>(begin), list.begin() + static_cast<int64_t>(begin + count)};
}

struct RandomScan {
  uint64_t seed = 0;
  int64_t length = 0;
  ScanOptions options = {};

  RandomBody body(const Tensors& t) const { return {seed, part(t, 7, 3)}; }
  Tensors scanned(const Tensors& t) const { return joined(scan(body(t), part(t, 0, 4), part(t, 4, 3), options)); }
  Tensors written_out(const Tensors& t) const {
    return joined(unrolled_scan(body(t), part(t, 0, 4), part(t, 4, 3), options));
  }
};

// Results, then gradients of all inputs; undefined where none comes.
Tensors run_with_gradients(const Function& function, const Tensors& inputs) {
  Tensors outputs = function(inputs);
  at::Tensor loss = torch::zeros({}, torch::kFloat64);
  for (size_t i = 0; i < outputs.size(); ++i) loss = loss + (outputs[i] * outputs[i].detach().cos()).sum();
  const auto gradients = torch::autograd::grad({loss}, inputs, {}, false, false, /*allow_unused=*/true);
  outputs.insert(outputs.end(), gradients.begin(), gradients.end());
  return outputs;
}

constexpr Likeness kZerosAlike{.rtol = 1e-10, .atol = 1e-10, .zeros_for_undefined = true};

Tensors with_pass(const std::string& name, const RandomScan& example, const Tensors& inputs) {
  const OnlyPass only(name);
  return run_with_gradients(aot_function([&](const Tensors& t) { return example.scanned(t); }), inputs);
}

class ScanPasses : public ::testing::TestWithParam<int64_t> {};

TEST_P(ScanPasses, GiveWhatTheLoopGives) {
  for (const uint64_t seed : rotating_seeds(0, 30)) {
    const RandomScan example{
        seed, GetParam(), {.reverse = seed % 2 == 1, .unroll = 1 + static_cast<int64_t>(seed % 3)}};
    SCOPED_TRACE(seed);
    const Tensors inputs = RandomBody::inputs(example.length, static_cast<double>(seed));
    const Tensors plain = with_pass("", example, inputs);
    if (example.length > 0) {
      EXPECT_TRUE(same_tensors(
          plain, run_with_gradients([&](const Tensors& t) { return example.written_out(t); }, inputs), kZerosAlike));
    }
    EXPECT_TRUE(
        same_tensors(run_with_gradients(aot_function([&](const Tensors& t) { return example.scanned(t); }), inputs),
                     plain, kZerosAlike));
    EXPECT_TRUE(same_tensors(run_with_gradients([&](const Tensors& t) { return example.scanned(t); }, inputs), plain,
                             kZerosAlike));
    if (::testing::Test::HasFailure()) return;
  }
}

TEST_P(ScanPasses, GiveItEachAlone) {
  for (uint64_t seed = 100; seed < 106; ++seed) {
    const RandomScan example{seed, GetParam(), {.reverse = seed % 2 == 1}};
    SCOPED_TRACE(seed);
    const Tensors inputs = RandomBody::inputs(example.length);
    const Tensors plain = with_pass("", example, inputs);
    for (const char* pass : kPasses) {
      SCOPED_TRACE(pass);
      EXPECT_TRUE(same_tensors(with_pass(pass, example, inputs), plain, kZerosAlike));
    }
    if (::testing::Test::HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Lengths, ScanPasses, ::testing::Values(0, 1, 2, 7));

TEST(ScanPassesOnBodies, KeepTheSecondOrderRight) {
  for (uint64_t seed = 200; seed < 204; ++seed) {
    SCOPED_TRACE(seed);
    const RandomScan example{seed, 2, {.reverse = seed % 2 == 1}};
    expect_gradients_right(RandomBody::inputs(2), [&](const Tensors& t) { return example.scanned(t); });
  }
}

// A scan in a scan: rows of x, and in each row its elements.
Tensors nested_scans(const Tensors& t) {
  const at::Tensor w = t[2], u = t[3];
  const auto inner = [&](const Tensors& h, const Tensors& x) -> std::pair<Tensors, Tensors> {
    const at::Tensor next = torch::tanh(x[0].mm(w) + h[0].mm(u));
    return {{next}, {next}};
  };
  const auto outer = [&](const Tensors& h, const Tensors& x) -> std::pair<Tensors, Tensors> {
    const auto [last, rows] = scan(inner, h, x, {.reverse = true});
    return {last, {rows[0], (rows[0] * w).sum(0)}};
  };
  return joined(scan(outer, Tensors{t[0]}, Tensors{t[1]}));
}

Tensors nested_inputs() {
  const auto made = [](at::IntArrayRef sizes, double shift) {
    return values(sizes, shift).to(torch::kFloat64).requires_grad_();
  };
  return {made({3, 3}, 0), made({2, 3, 3, 3}, 1), made({3, 3}, 2), made({3, 3}, 3)};
}

TEST(ScanPassesOnBodies, ReachScansInScans) {
  Tensors plain;
  {
    const OnlyPass none("");
    plain = run_with_gradients(aot_function(nested_scans), nested_inputs());
  }
  EXPECT_TRUE(same_tensors(run_with_gradients(aot_function(nested_scans), nested_inputs()), plain, kZerosAlike));
  EXPECT_TRUE(same_tensors(run_with_gradients(nested_scans, nested_inputs()), plain, kZerosAlike));
  expect_gradients_right(nested_inputs(), nested_scans);
}

TEST(ScanPassesOnBodies, DrawWhatTheLoopDraws) {
  const auto body = [](const Tensors& free) {
    return [free](const Tensors& h, const Tensors& x) -> std::pair<Tensors, Tensors> {
      const at::Tensor noisy = torch::dropout(x[0].mm(free[0]), 0.5, true);
      const at::Tensor next = torch::tanh(noisy + torch::dropout(h[0], 0.3, true));
      return {{next}, {next * 2, noisy}};
    };
  };
  const auto inputs = [] {
    return Tensors{nested_inputs()[0], values({4, 3, 3}).to(torch::kFloat64).requires_grad_(), nested_inputs()[2]};
  };
  const auto draw = [&](const Function& function) {
    torch::manual_seed(7);
    return run_with_gradients(function, inputs());
  };
  const Function scanned = [&](const Tensors& t) { return joined(scan(body({t[2]}), Tensors{t[0]}, Tensors{t[1]})); };
  const Function loop = [&](const Tensors& t) { return joined(unrolled_scan(body({t[2]}), {t[0]}, {t[1]})); };
  EXPECT_TRUE(same_tensors(draw(aot_function(scanned)), draw(loop), kZerosAlike));
  EXPECT_TRUE(same_tensors(draw(scanned), draw(loop), kZerosAlike));
}

}  // namespace
}  // namespace diptych::testing
