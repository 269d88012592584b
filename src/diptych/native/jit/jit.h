// LLVM IR text becomes machine code of the host. The only room that includes LLVM.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

namespace diptych::detail {

/// What code is made for.
struct HostTarget {
  std::string triple;     ///< "x86_64-pc-linux-gnu"
  std::string cpu;        ///< "znver3"
  std::string features;   ///< "+avx2,+fma,..."
  int vector_bytes = 16;  ///< of the widest vectors that code should use: 64 with AVX-512, 32 with AVX2, else 16
};

/// The machine that runs this process, or as much of it as the CPU has that the environment variable DIPTYCH_CPU names.
/// Errors: UserError if there is no CPU of this name. Threads: any.
const HostTarget& host_target();

/// Whether kernels are kept for the next process: DIPTYCH_KERNEL_CACHE=0 says no. Errors: UserError if it is neither 0
/// nor 1.
bool keeps_kernels();

/// Machine code in memory, for as long as this lives.
class MachineCode {
 public:
  virtual ~MachineCode() = default;
  /// The address of a function that the text defines. Errors: UserError if it defines none of this name.
  virtual void* address(const std::string& function) const = 0;
};

/// Compiles a module of LLVM IR, in text, for the host: verifies it, runs a short pipeline of passes (values in memory
/// become registers, common subexpressions, invariants leave loops; loops are neither vectorized nor unrolled: the text
/// says how it wants them) and makes code. Functions that the text only declares are the process's own (libm, SLEEF's
/// in libtorch_cpu). `name` occurs in messages and in the names that profilers and debuggers show.
/// Errors: UserError with LLVM's words if the text is wrong, calls a function that there is none of, or no executable
/// memory is to be had. Threads: any; several modules are compiled at once.
std::shared_ptr<const MachineCode> compile_llvm(const std::string& text, const std::string& name);

/// The assembly that compile_llvm would make of the text, to be read.
std::string assembly(const std::string& text, const std::string& name);

}  // namespace diptych::detail
