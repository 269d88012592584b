// What a caller may choose about how a function is captured and run.
#pragma once
#include <string>
#include <vector>

#include "diptych/backends/backend.h"
#include "diptych/passes/partition.h"

namespace diptych {

/// Options of aot_function and its kin. Every field has a default that is right for training.
struct AotOptions {
  /// Which built-in backend compiles the graphs: see backend_names().
  std::string backend = "interpreter";
  /// What the forward saves for the backward.
  Partitioner partition = default_partition();
  /// If set, these compile forward, backward and inference graphs in place of the backend.
  Compiler forward_compiler = {};
  Compiler backward_compiler = {};
  Compiler inference_compiler = {};
  /// Operators to decompose before partitioning, by name ("aten.gelu"), or "all" that have a rule; empty for none.
  std::vector<std::string> decompositions = {};
  /// Whether sizes that change become dynamic: the second capture that differs from an earlier one in sizes alone
  /// serves all sizes of a range, if tracing at several shows how its graphs depend on them (Note [Sizes by example]);
  /// the function is then called several times while it is captured. Sizes 0 and 1 have captures of their own, and so
  /// have sizes at which the function makes other graphs.
  bool dynamic = false;
  /// What paths of the arguments start with, in order; an argument without a name is called arg0, arg1 ...
  std::vector<std::string> argument_names = {};
  /// How many captures are kept; one more discards the one that was used longest ago.
  size_t cache_limit = 64;
  /// Names the function in logs, graphs and errors.
  std::string name = "aot";
};

}  // namespace diptych
