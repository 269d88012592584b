// What the text of code depends on of the machine that it is for.
#pragma once
#include "diptych/native/jit/jit.h"

namespace diptych::detail {

/// Everything else of a machine is LLVM's business.
struct CodeTarget {
  int vector_bytes = 16;   ///< of the widest vectors that code should use
  bool has_sleef = false;  ///< whether libtorch_cpu has SLEEF's functions for these vectors there
  bool has_nontemporal_stores = false;
};

CodeTarget code_target(const HostTarget& machine);
/// That of host_target().
const CodeTarget& host_code_target();

}  // namespace diptych::detail
