// Making random programs.
#pragma once
#include "fuzz/program.h"

namespace diptych::fuzz {

/// The program of this seed. Most run in eager without an error; some don't, on purpose.
Program generate(uint64_t seed);

/// A program whose body is that of a loop or a branch.
Program generate_loop(uint64_t seed);

}  // namespace diptych::fuzz
