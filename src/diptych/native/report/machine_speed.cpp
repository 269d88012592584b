#include "diptych/native/report/machine_speed.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <string>

#include "diptych/base/error.h"
#include "diptych/base/parallel.h"
#include "diptych/native/jit/jit.h"

namespace diptych::detail {
namespace {

// The shortest of some runs. Units: s.
template <class Run>
double best_seconds(int runs, const Run& run) {
  double best = 1e9;
  for (int i = 0; i < runs; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

// Far more than caches hold.
double measure_bandwidth() {
  constexpr int64_t kBytes = int64_t{1} << 27;
  const auto from = std::make_unique_for_overwrite<char[]>(kBytes), to = std::make_unique_for_overwrite<char[]>(kBytes);
  std::memset(from.get(), 1, kBytes);
  std::memset(to.get(), 1, kBytes);
  const double seconds = best_seconds(5, [&] {
    in_parallel(kBytes, 1 << 20, [&](int64_t begin, int64_t end) {
      std::memcpy(to.get() + begin, from.get() + begin, static_cast<size_t>(end - begin));
    });
  });
  return 2 * static_cast<double>(kBytes) / seconds;
}

// Enough sums at once that none waits for the one before.
constexpr int kPeakSums = 10;
constexpr int64_t kPeakSteps = 1 << 20;

std::string multiply_adds_text(int lanes) {
  const std::string vector = fmt::format("<{} x float>", lanes);
  std::string text = fmt::format("define void @peak(ptr %to, i64 %steps) #0 {{\nentry:\n  br label %loop\nloop:\n");
  text += "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]\n";
  for (int i = 0; i < kPeakSums; ++i) {
    text += fmt::format("  %a{} = phi {} [ zeroinitializer, %entry ], [ %b{}, %loop ]\n", i, vector, i);
  }
  text += fmt::format("  %x = load volatile {}, ptr %to\n", vector);
  for (int i = 0; i < kPeakSums; ++i) {
    text += fmt::format("  %b{0} = call {1} @llvm.fma.v{2}f32({1} %a{0}, {1} %x, {1} %x)\n", i, vector, lanes);
  }
  text +=
      "  %next = add i64 %i, 1\n  %more = icmp slt i64 %next, %steps\n  br i1 %more, label %loop, label %end\nend:\n";
  for (int i = 0; i < kPeakSums; ++i) text += fmt::format("  store volatile {} %b{}, ptr %to\n", vector, i);
  text += fmt::format("  ret void\n}}\ndeclare {0} @llvm.fma.v{1}f32({0}, {0}, {0})\n", vector, lanes);
  return text + fmt::format("attributes #0 = {{ \"prefer-vector-width\"=\"{}\" }}\n", 32 * lanes);
}

double measure_flops() {
  const int lanes = host_target().vector_bytes / static_cast<int>(sizeof(float));
  std::shared_ptr<const MachineCode> code;
  try {
    code = compile_llvm(multiply_adds_text(lanes), "peak");
  } catch (const std::exception&) {
    return 0;
  }
  auto* const peak = reinterpret_cast<void (*)(void*, int64_t)>(code->address("peak"));
  const int64_t threads = at::get_num_threads();
  const double seconds = best_seconds(5, [&] {
    in_parallel(threads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        alignas(64) char numbers[64] = {};
        peak(numbers, kPeakSteps);
      }
    });
  });
  return 2.0 * kPeakSums * lanes * static_cast<double>(kPeakSteps * threads) / seconds;
}

}  // namespace

double memory_bandwidth() {
  static const double measured = measure_bandwidth();
  return measured;
}

double peak_flops() {
  static const double measured = measure_flops();
  return measured;
}

}  // namespace diptych::detail
