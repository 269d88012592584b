// Stores past the caches write what ordinary ones do, wherever results lie.
#include <ATen/Parallel.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <fmt/ranges.h>

#include <cstring>
#include <limits>

#include "backends/native/codegen_case.h"
#include "backends/native/dynamic_kernel.h"
#include "backends/native/random_row_kernel.h"
#include "diptych/native/jit/jit.h"
#include "diptych/native/schedule/nontemporal_stores.h"
#include "testing/rotation.h"

namespace diptych {
namespace {

using testing::Tensors;

constexpr int64_t kAlways = 0, kNever = std::numeric_limits<int64_t>::max();

// For as long as it lives, calls have non-temporal stores from so many bytes on.
class LeastBytes {
 public:
  explicit LeastBytes(int64_t bytes) : before_(detail::least_nontemporal_bytes()) {
    detail::set_least_nontemporal_bytes(bytes);
  }
  ~LeastBytes() { detail::set_least_nontemporal_bytes(before_); }
  LeastBytes(const LeastBytes&) = delete;
  LeastBytes& operator=(const LeastBytes&) = delete;

 private:
  int64_t before_;
};

bool is_x86() { return detail::host_target().triple.starts_with("x86_64"); }

bool has_nontemporal(const detail::Kernel& kernel) {
  return detail::llvm_text(kernel).find("!nontemporal") != std::string::npos;
}

struct Call {
  detail::Kernel kernel;
  Tensors inputs;
  std::vector<int64_t> output_counts;
  std::vector<int64_t> symbols = {};
};

// The memory around the results of a call, of which output i begins offsets[i] elements behind a line's beginning.
Tensors run(const Call& call, int64_t least_bytes, const std::vector<int64_t>& offsets) {
  constexpr int64_t kBehind = 64;
  const LeastBytes least(least_bytes);
  Tensors memory;
  std::vector<void*> from, to;
  for (const at::Tensor& input : call.inputs) from.push_back(input.data_ptr());
  for (size_t i = 0; i < call.output_counts.size(); ++i) {
    memory.push_back(at::zeros({offsets[i] + call.output_counts[i] + kBehind}, call.kernel.outputs[i]));
    to.push_back(static_cast<char*>(memory[i].data_ptr()) + offsets[i] * memory[i].element_size());
  }
  detail::compile_kernel(call.kernel)->run(from.data(), to.data(), call.symbols);
  return memory;
}

bool has_same_bytes(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == b.nbytes() && std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

void expect_same_bytes(const Call& call, const std::vector<int64_t>& offsets) {
  SCOPED_TRACE(fmt::format("{}outputs at {}", detail::print(call.kernel), fmt::join(offsets, ", ")));
  const Tensors expected = run(call, kNever, offsets), found = run(call, kAlways, offsets);
  for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(has_same_bytes(found[i], expected[i])) << "output " << i;
}

void expect_agrees(const Call& call) {
  const LeastBytes least(kAlways);
  testing::expect_code_agrees(call.kernel, call.inputs, call.output_counts, call.symbols);
}

// Some of all ways in which the beginnings of outputs may lie.
std::vector<int64_t> offsets_of(size_t outputs, uint32_t seed) {
  std::mt19937 random(seed);
  const bool is_alike = random() % 2 == 0;
  std::vector<int64_t> offsets(outputs, static_cast<int64_t>(random() % 17));
  for (int64_t& offset : offsets) offset = is_alike ? offset : static_cast<int64_t>(random() % 17);
  return offsets;
}

Call pointwise_call(int64_t n) {
  const auto kernel = detail::parse_kernel(fmt::format(R"(kernel chain(d0={}) {{
    x0 : f32
    y0 : f32
    y1 : f32
    %0 : f32 = load x0[d0]
    %1 : f32 = exp %0
    %2 : f32 = add %0, %1
    store y0[d0] = %1
    store y1[d0] = %2
  }})",
                                                       n));
  return {kernel, {at::randn({n})}, {n, n}};
}

TEST(NonTemporalStores, WriteTheSameFromAnyAddressOn) {
  constexpr int64_t kCounts[] = {1, 3, 15, 16, 31, 64, 65, 100, 4096, 5000};
  for (const uint32_t place : testing::rotating_seeds(0, std::size(kCounts))) {
    const Call call = pointwise_call(kCounts[place]);
    expect_agrees(call);
    for (const int64_t offset : {0, 1, 7, 8, 15, 16}) {
      expect_same_bytes(call, {offset, offset});
      expect_same_bytes(call, {offset, 3});
    }
  }
}

// As in memory that a user brought: no vector is aligned then.
TEST(NonTemporalStores, WriteToElementsThatAreNotAligned) {
  constexpr int64_t kCount = 300;
  const Call call = pointwise_call(kCount);
  Tensors memory;
  for (const int64_t bytes : {kNever, kAlways}) {
    const LeastBytes least(bytes);
    memory.push_back(at::zeros({2, kCount + 1}, at::kFloat));
    std::vector<void*> from{call.inputs[0].data_ptr()}, to;
    for (const int64_t row : {0, 1}) to.push_back(static_cast<char*>(memory.back()[row].data_ptr()) + 1);
    detail::compile_kernel(call.kernel)->run(from.data(), to.data(), {});
  }
  EXPECT_TRUE(has_same_bytes(memory[0], memory[1]));
}

TEST(NonTemporalStores, WriteTheSameInRowsOfAnyWidth) {
  constexpr int64_t kWidths[] = {5, 16, 77, 128, 1000, 5001};
  for (const uint32_t place : testing::rotating_seeds(0, std::size(kWidths))) {
    const int64_t width = kWidths[place];
    const auto kernel = detail::parse_kernel(fmt::format(R"(kernel rows(d0=9, d1={0}) {{
      x0 : f32
      y0 : f32
      y1 : f32
      %0 : f32 = load x0[{0}*d0 + d1]
      %1 : f32 = reduce max %0 over d1
      %2 : f32 = sub %0, %1
      %3 : f32 = exp %2
      %4 : f32 = reduce sum %3 over d1
      %5 : f32 = div %3, %4
      %6 : f32 = reduce sum %5 over d0
      store y0[{0}*d0 + d1] = %5
      store y0[{0}*d0 + d1 + {1}] = %2
      store y1[d1] = %6
    }})",
                                                         width, 9 * width));
    const Call call{kernel, {at::randn({9 * width})}, {18 * width, width}};
    EXPECT_EQ(has_nontemporal(kernel), false);
    {
      const LeastBytes least(kAlways);
      if (width >= 1000) EXPECT_EQ(has_nontemporal(kernel), is_x86());  // shorter loops may not be worth it
    }
    expect_agrees(call);
    for (const int64_t offset : {0, 1, 5, 8, 12}) expect_same_bytes(call, {offset, 0});
  }
}

TEST(NonTemporalStores, WriteAllDtypes) {
  Call call{{}, {at::randint(-3, 4, {1003}).to(at::kFloat)}, {}};
  std::string text = "kernel casts(d0=1003) {\n x0 : f32\n", body = " %0 : f32 = load x0[d0]\n";
  int output = 0;
  for (const std::string name : {"f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "b8"}) {
    text += fmt::format(" y{} : {}\n", output, name);
    body += fmt::format(" %{0} : {1} = cast %0\n store y{2}[d0] = %{0}\n", output + 1, name, output);
    ++output;
    call.output_counts.push_back(1003);
  }
  call.kernel = detail::parse_kernel(text + body + "}");
  {
    const LeastBytes least(kAlways);
    EXPECT_EQ(has_nontemporal(call.kernel), is_x86());
  }
  expect_agrees(call);
  for (uint32_t seed = 0; seed < 20; ++seed) expect_same_bytes(call, offsets_of(9, seed));
  expect_same_bytes(call, std::vector<int64_t>(9, 64));
}

TEST(NonTemporalStores, OverwriteInputs) {
  const auto kernel = detail::parse_kernel(
      "kernel square(d0=1003) {\n x0 : f32\n y0 : f32\n %0 : f32 = load x0[d0]\n %1 : f32 = mul %0, %0\n"
      " store y0[d0] = %1\n}");
  const LeastBytes least(kAlways);
  const at::Tensor x = at::randn({1003}), expected = x * x;
  void* const memory = x.data_ptr();
  detail::compile_kernel(kernel)->run(&memory, &memory, {});
  EXPECT_TRUE(x.equal(expected));
}

TEST(NonTemporalStores, WriteTheSameByAnyNumberOfThreads) {
  const Call call = pointwise_call(300'001);
  const int before = at::get_num_threads();
  const auto with = [&](int threads) {
    at::set_num_threads(threads);
    return run(call, kAlways, {3, 3});
  };
  const Tensors one = with(1);
  for (const int threads : {2, 3, 8}) {
    const Tensors found = with(threads);
    EXPECT_TRUE(has_same_bytes(found[0], one[0]) && has_same_bytes(found[1], one[1])) << threads << " threads";
  }
  at::set_num_threads(before);
}

TEST(NonTemporalStores, AgreeOnRandomKernels) {
  size_t nontemporal = 0;
  const auto seeds = testing::rotating_seeds(0, 120);
  for (const uint32_t seed : seeds) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    testing::RandomRowKernel random(seed);
    random.make();
    Call call{random.kernel, random.inputs, random.output_counts};
    if (seed % 2 == 0) {
      const testing::DynamicKernel dynamic = testing::with_symbols(random.kernel, seed);
      call.kernel = dynamic.kernel;
      call.symbols = dynamic.symbols;
    }
    if (detail::codegen_problem(call.kernel)) continue;
    expect_agrees(call);
    expect_same_bytes(call, offsets_of(call.output_counts.size(), seed));
    if (::testing::Test::HasFailure()) return;
    const LeastBytes least(kAlways);
    nontemporal += has_nontemporal(call.kernel) ? 1 : 0;
  }
  if (is_x86()) EXPECT_GE(nontemporal, testing::share_of(seeds.size(), 40, 120));
}

TEST(NonTemporalStores, AreThereWhereEnoughIsMoved) {
  if (!is_x86()) GTEST_SKIP() << "x86-64 alone has them";
  const auto kernel = pointwise_call(10'000).kernel;  // 120,000 bytes
  const auto has = [&](int64_t bytes, const detail::Kernel& of) {
    const LeastBytes least(bytes);
    return has_nontemporal(of);
  };
  EXPECT_TRUE(has(120'000, kernel));
  EXPECT_FALSE(has(120'001, kernel));
  const auto dynamic = detail::parse_kernel(
      "kernel copy(d0=s0) where s0=1000 {\n x0 : f32\n y0 : f32\n"
      " %0 : f32 = load x0[d0]\n store y0[d0] = %0\n}");
  EXPECT_TRUE(has(100'000, dynamic));
  EXPECT_FALSE(has(1'000'000, dynamic));
  EXPECT_FALSE(
      has(kAlways, detail::parse_kernel("kernel add(d0=9, d1=64) {\n x0 : f32\n y0 : f32\n"
                                        " %0 : f32 = load x0[64*d0 + d1]\n store add y0[64*d0 + d1] = %0\n}")));
  const LeastBytes least(kAlways);
  const std::string assembly = detail::assembly(detail::llvm_text(kernel), "chain");
  EXPECT_NE(assembly.find("movnt"), std::string::npos) << assembly;
  EXPECT_NE(assembly.find("sfence"), std::string::npos) << assembly;
}

TEST(NonTemporalStores, CountEachElementOnce) {
  const auto kernel = detail::parse_kernel(R"(kernel rows(d0=s0, d1=10) where s0=3 {
    x0 : f32
    x1 : f64
    y0 : f32
    %0 : f32 = load x0[10*d0 + d1]
    %1 : f32 = load x0[10*d0 + 9 - d1]
    %2 : f64 = load x1[d1]
    %3 : f32 = cast %2
    %4 : f32 = mul %0, %1
    %5 : f32 = mul %4, %3
    store y0[10*d0 + d1] = %5
  })");
  std::string why;
  const auto schedule = detail::make_schedule(kernel, why);
  ASSERT_TRUE(schedule) << why;
  const detail::MovedBytes moved(*schedule);
  EXPECT_EQ(moved.at({7}), 70 * 4 + 10 * 8 + 70 * 4);
  EXPECT_EQ(moved.likely(), 30 * 4 + 10 * 8 + 30 * 4);
}

}  // namespace
}  // namespace diptych
