// Kernels as machine code beside the reference evaluator, on the same memory.
#pragma once
#include <ATen/ops/allclose.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backends/native/parse_kernel.h"
#include "diptych/native/codegen/compiled_kernel.h"
#include "diptych/native/kernel/evaluate.h"
#include "diptych/native/kernel/print.h"
#include "diptych/native/kernel/verify.h"
#include "testing/tensors.h"

namespace diptych::testing {

/// How far a result may be from the reference, relative to the largest finite element: the functions of both differ by
/// units in the last place, which chains of operations make more of.
inline double code_tolerance(at::ScalarType dtype) {
  if (dtype == at::kDouble) return 1e-11;
  if (dtype == at::kFloat) return 2e-5;
  return dtype == at::kHalf ? 2e-3 : dtype == at::kBFloat16 ? 2e-2 : 0;
}

inline ::testing::AssertionResult same_numbers(const at::Tensor& found, const at::Tensor& expected) {
  if (found.is_complex()) return same_numbers(at::view_as_real(found), at::view_as_real(expected));
  const at::Tensor a = found.to(at::kDouble).flatten(), b = expected.to(at::kDouble).flatten();
  const double tolerance = code_tolerance(found.scalar_type());
  double largest = 0;
  const auto* x = a.const_data_ptr<double>();
  const auto* y = b.const_data_ptr<double>();
  for (int64_t i = 0; i < b.numel(); ++i) {
    if (std::isfinite(y[i])) largest = std::max(largest, std::abs(y[i]));
  }
  for (int64_t i = 0; i < b.numel(); ++i) {
    const bool both_nan = std::isnan(x[i]) && std::isnan(y[i]);
    if (both_nan || x[i] == y[i] || std::abs(x[i] - y[i]) <= tolerance * largest) continue;
    return ::testing::AssertionFailure() << "element " << i << " is " << x[i] << ", expected " << y[i]
                                         << " (the largest is " << largest << ")";
  }
  return ::testing::AssertionSuccess();
}

/// Compiles a kernel and compares all that it writes with the evaluator's, elements that it does not write included.
inline void expect_code_agrees(const detail::Kernel& kernel, const Tensors& inputs,
                               const std::vector<int64_t>& output_counts, const std::vector<int64_t>& symbols = {},
                               const detail::CodeTarget& target = detail::host_code_target()) {
  SCOPED_TRACE(detail::print(kernel));
  ASSERT_FALSE(detail::find_problem(kernel)) << detail::find_problem(kernel)->what;
  ASSERT_EQ(detail::codegen_problem(kernel, target).value_or(""), "");
  Tensors found, expected;
  std::vector<detail::KernelMemory> reads, writes;
  std::vector<void*> from, to;
  for (const at::Tensor& input : inputs) {
    reads.push_back(detail::KernelMemory::of(input));
    from.push_back(input.data_ptr());
  }
  for (size_t i = 0; i < output_counts.size(); ++i) {
    for (Tensors* all : {&found, &expected}) all->push_back(at::zeros({output_counts[i]}, kernel.outputs[i]));
    writes.push_back(detail::KernelMemory::of(expected[i]));
    to.push_back(found[i].data_ptr());
  }
  detail::evaluate(kernel, reads, writes, symbols);
  detail::compile_kernel(kernel, target)->run(from.data(), to.data(), symbols);
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(same_numbers(found[i], expected[i])) << "output " << i << "\n" << detail::llvm_text(kernel);
  }
}

inline void expect_code_agrees(const std::string& text, const Tensors& inputs,
                               const std::vector<int64_t>& output_counts) {
  expect_code_agrees(detail::parse_kernel(text), inputs, output_counts);
}

}  // namespace diptych::testing
