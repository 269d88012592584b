// One kernel from a file, run alone: what check_kernel() wrote when results differed.
#pragma once
#include <string>

namespace diptych::detail {

/// How a kernel did.
struct KernelFileReport {
  bool differs = false;  ///< from the interpreter or the reference evaluator, beyond the bound of check_kernel()
  std::string text;      ///< for people: the kernel, and for each output how far the three are apart
};

/// Makes the kernel of the body in `path` ("<name>.graph"), runs it on the inputs beside it ("<name>.safetensors"), and
/// compares it with the interpreter and with the reference evaluator, which take their time.
/// Errors: UserError for a file that can't be read or is none of a kernel, for other inputs than the body's, and where
/// no kernel can be made, with the reason.
KernelFileReport check_kernel_file(const std::string& path);

}  // namespace diptych::detail
