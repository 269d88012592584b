// Running a program's body as that of a higher-order operator, or as the loop written out.
#pragma once
#include "fuzz/program.h"

namespace diptych::fuzz {

enum class Way { kWrittenOut, kByOperator };

/// What the program's function returns for these arguments. Results of a loop own their memory, as an operator's do.
/// Errors: InvalidProgram for a loop whose carries do not keep their sizes and dtype, or that lacks what it needs.
Tensors run_function(const Program& program, const Tensors& arguments, const Tensors& captured, Way way);

}  // namespace diptych::fuzz
