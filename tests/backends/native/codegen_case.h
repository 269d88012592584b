// Kernels as machine code beside the reference evaluator, on the same memory.
#pragma once
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "backends/native/kernel_noise.h"
#include "backends/native/parse_kernel.h"
#include "diptych/native/codegen/compiled_kernel.h"
#include "diptych/native/kernel/evaluate.h"
#include "diptych/native/kernel/print.h"
#include "diptych/native/kernel/verify.h"
#include "testing/tensors.h"

namespace diptych::testing {

/// The kernel at these sizes alone.
inline detail::Kernel at_sizes(detail::Kernel kernel, const std::vector<int64_t>& symbols) {
  kernel.hints = symbols;
  return detail::at_hints(kernel);
}

/// Compiles a kernel and compares all that it writes with the evaluator's, elements that it does not write included:
/// they are some units in the last place apart, or as far as rounding carries this kernel's results.
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
  std::optional<Rounding> rounding;
  for (size_t i = 0; i < found.size(); ++i) {
    at::Tensor right = same_numbers(found[i], expected[i]);
    if (is_inexact(found[i]) && !right.all().item<bool>()) {
      right = right | is_near(found[i], expected[i].to(wide_dtype(kernel.outputs[i])), at::zeros({}, at::kDouble));
    }
    if (is_inexact(found[i]) && !right.all().item<bool>()) {
      if (!rounding) rounding.emplace(at_sizes(kernel, symbols), inputs, output_counts);
      right = right | is_near(found[i], rounding->exact[i], rounding->moved[i]);
    }
    const at::Tensor wrong = right.logical_not();
    EXPECT_TRUE(right.all().item<bool>())
        << "output " << i << " at\n"
        << wrong.nonzero() << "\nis\n"
        << found[i].masked_select(wrong) << "\nexpected\n"
        << expected[i].masked_select(wrong) << "\napart by\n"
        << (found[i] - expected[i]).masked_select(wrong) << "\nrounding moves it by\n"
        << (rounding ? rounding->moved[i].masked_select(wrong) : at::Tensor()) << detail::llvm_text(kernel);
  }
}

inline void expect_code_agrees(const std::string& text, const Tensors& inputs,
                               const std::vector<int64_t>& output_counts) {
  expect_code_agrees(detail::parse_kernel(text), inputs, output_counts);
}

}  // namespace diptych::testing
