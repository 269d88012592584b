// Why parts of a graph did not become one kernel: written down where somebody asks.
#pragma once
#include <string>
#include <vector>

namespace diptych::detail {

/// A value that goes from one kernel or operator to another, of which at least one is a kernel.
struct FusionGap {
  std::string maker, reader;  ///< "0 fused_mul_tanh" for kernel 0, "aten.mm" for an operator
  std::string type;           ///< of the value
  std::string why;            ///< they are apart
};

/// What fuse() found, kernels in the order of their nodes, those of bodies included.
struct FusionRecord {
  std::vector<std::string> kernels;
  std::vector<FusionGap> gaps;
};

}  // namespace diptych::detail
