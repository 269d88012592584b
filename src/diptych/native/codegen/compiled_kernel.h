// Kernels as machine code.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "diptych/native/kernel/kernel.h"
#include "diptych/native/scalar/code_target.h"

namespace diptych::detail {

/// A kernel made into code. Threads: run() may be called from any number at once.
class CompiledKernel {
 public:
  virtual ~CompiledKernel() = default;
  /// Computes the outputs. `inputs` and `outputs` have the address of each buffer's element 0, aligned for its dtype.
  /// An output may be an input's memory if the kernel has no reductions and reads that input only at the element that
  /// it writes; apart from that, outputs overlap with nothing. Work is shared out by in_parallel(); results do not
  /// depend on the number of threads. `symbols`: the values of the kernel's symbols. Requires: buffers as large as the
  /// kernel's maps reach.
  virtual void run(void* const* inputs, void* const* outputs, const std::vector<int64_t>& symbols) const = 0;
};

/// Returns why no code can be made of a kernel; nullopt if it can. Kernels with operations on complex
/// numbers that complex_formulas.h does not have, stores that add where all may be to one element, and reductions that
/// no order of loops computes in one pass over rows have none.
std::optional<std::string> codegen_problem(const Kernel& kernel, const CodeTarget& target = host_code_target());

/// The LLVM IR of a kernel for a machine: one module, or several of functions that are called one after the other.
/// Requires: no codegen_problem().
std::vector<std::string> llvm_modules(const Kernel& kernel, const CodeTarget& target = host_code_target());
/// All of that for the host, to be read.
std::string llvm_text(const Kernel& kernel);

/// Requires: no codegen_problem(). Errors: those of compile_llvm(). Kernels that are equal but for their name share
/// their code. Threads: any. `target`: the host, or what of it the text shall make use of.
std::shared_ptr<const CompiledKernel> compile_kernel(const Kernel& kernel,
                                                     const CodeTarget& target = host_code_target());

}  // namespace diptych::detail
