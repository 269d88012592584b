// The code of fused bodies: lowered and compiled once, and kept as long as the body is.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "diptych/graph/graph.h"
#include "diptych/native/call/kernel_times.h"
#include "diptych/native/codegen/compiled_kernel.h"

namespace diptych::detail {

/// What became of a body.
struct KernelCode {
  std::optional<Kernel> kernel;                                          ///< none if it could not be lowered
  std::vector<SizeExpr> symbols;                                         ///< of the body, what the kernel's symbols are
  std::shared_ptr<const CompiledKernel> code;                            ///< null if the interpreter runs the body
  bool has_check = false;                                                ///< see lower_group()
  std::string problem;                                                   ///< why it does; empty if it does not
  std::shared_ptr<KernelTimes> times = std::make_shared<KernelTimes>();  ///< of calls that were timed
};

/// The sizes that a call of a kernel has to know: the kernel's symbols, and then the sizes and strides of the body's
/// inputs and outputs.
std::vector<SizeExpr> sizes_of_call(const Graph& body, const std::vector<SizeExpr>& symbols);

/// Returns the code of a body, made when it is first asked for and logged (DIPTYCH_LOG=kernels). Whatever stands in the
/// way of a kernel is a problem, and no error. Errors: UserError for a variable of the environment that says nothing
/// (DIPTYCH_KERNEL_CACHE, DIPTYCH_PERF, DIPTYCH_CPU). Threads: any; bodies are compiled at the same time, each by one.
std::shared_ptr<const KernelCode> code_of(const std::shared_ptr<const Graph>& body);

/// Makes the code of the bodies of all hop.fused nodes of a graph, and of its bodies, several at a time.
void make_codes(const Graph& graph);

}  // namespace diptych::detail
