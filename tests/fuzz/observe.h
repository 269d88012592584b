// What one call of a random program and its backward do, as far as a caller can see.
#pragma once
#include <string>
#include <vector>

#include "fuzz/program.h"
#include "testing/eager_check.h"

namespace diptych::fuzz {

struct Run {
  testing::Observed seen;
  std::string stage = "call";
  bool user_error = false;
  /// Per output, then per argument, whether it is a root of the backward: it required grad where eager ran.
  std::vector<bool> is_root;
  /// Per hook, whether there was something to register it on.
  std::vector<bool> is_hooked;
};

/// Calls the function on the program's arguments of call `number`, and does the program's edit and backward. `eager`:
/// what it is compared with, if it is ours.
Run observe(const Program& program, const testing::Function& function, const Tensors& captured, int number,
            const Run* eager = nullptr);

}  // namespace diptych::fuzz
