// The version of LibTorch that is compiled with. For what does not compile with all of them: where only results differ,
// a row of a table says it.
#pragma once
#include <torch/headeronly/version.h>

#define DIPTYCH_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))
