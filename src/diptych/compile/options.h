// What a caller may choose about how a function is captured and run.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "diptych/backends/builtin_backends.h"
#include "diptych/passes/partition.h"

namespace diptych {

/// Options of aot_function and its kin. Every field has a default that is right for training.
struct AotOptions {
  /// Which built-in backend compiles the graphs: see backend_names().
  std::string backend = default_backend();
  /// Who draws random numbers: "host" draws eager's, draw for draw; "device" has programs draw for themselves, from a
  /// seed that each run draws from LibTorch's generator. Backend "xla" alone has the latter.
  std::string draws = "host";
  /// What the forward saves for the backward. If not set, the backend decides: "native" by hidden_min_cut(), all others
  /// and graphs of dynamic sizes by default_partition().
  std::optional<Partitioner> partition = {};
  /// If set, these compile forward, backward and inference graphs in place of the backend.
  Compiler forward_compiler = {};
  Compiler backward_compiler = {};
  Compiler inference_compiler = {};
  /// Operators to decompose before partitioning, by name ("aten.gelu"), or "all" that have a rule; empty for none.
  std::vector<std::string> decompositions = {};
  /// Whether sizes that change become dynamic: the second capture that differs from an earlier one only in sizes serves
  /// other sizes, too, if traces at several sizes show how its graphs depend on them (Note [Sizes by example]); the
  /// function is then called several times during the capture. Sizes 0 and 1 have captures of their own, and so do
  /// sizes at which the function makes other graphs.
  bool dynamic = false;
  /// Whether a dynamic capture is compared with a trace of the function at each size that it meets for the first time,
  /// so that whatever the function decides by its sizes is as in eager. If false, it serves all sizes of a range
  /// without a trace if traces at the ends and at likely sizes agree; a branch that none of these traces takes is
  /// missed.
  bool check_sizes = true;
  /// The names that the paths of the arguments start with, in order; unnamed arguments are called arg0, arg1 ...
  std::vector<std::string> argument_names = {};
  /// How many captures are kept; one more discards the one that was used longest ago.
  size_t cache_limit = 64;
  /// How many captures may differ only in values that the function asks for on the host (`item()`, a branch on a
  /// tensor, a mask as an index; see Note [A tree of captures]). Where a call would need one more, calls of its kind
  /// run the function itself. 0: asking for a value is a UserError.
  size_t path_limit = 16;
  /// Whether a call of which no graph can be made runs the function itself, as later calls of its kind do, with one
  /// warning that says why and where. If false, such a call is a UserError.
  bool eager_fallback = false;
  /// In C++ guards see the arguments alone: what else a function reads (a number captured by reference, a global, a
  /// member) is a constant of its graphs. So it is traced again at the second call that a capture serves, and at every
  /// `check_constants`-th, and the graphs are compared: one that moved is a UserError (Note [Constants of C++]). 0:
  /// never. Functions of Python have guards for what they read.
  size_t check_constants = 1000;
  /// Every `check`-th call also runs the original function, on copies, and compares what both have done, gradients
  /// included; the first difference is a UserError (Note [A checked call]). 0: as the environment variable
  /// DIPTYCH_CHECK says, or never.
  size_t check = 0;
  /// How far values may differ in a check, absolutely and relative to a tensor's largest; 0 means bit for bit. If not
  /// set, it depends on the dtype: 1e-4 for float32.
  std::optional<double> check_tolerance = {};
  /// Whether the results of each native kernel are compared with the interpreter's, as DIPTYCH_CHECK=kernels does for
  /// all functions: the first that differs is an InternalError, which names the file that the command `diptych
  /// check-kernel` runs alone. Backend "native" alone has kernels.
  bool check_kernels = false;
  /// Whether graphs are compiled in the background: calls run the interpreter until the code is ready. What goes wrong
  /// there is reported (DIPTYCH_LOG=graphs), and the interpreter stays. Compilers that are set are not affected.
  bool async_compile = false;
  /// Names the function in logs, graphs and errors.
  std::string name = "aot";
};

namespace detail {
/// Finds the backend that options ask for. Errors: as backend_by_name(); UserError for check_kernels and a backend
/// without native kernels.
std::shared_ptr<const Backend> backend_of(const AotOptions& options);
}  // namespace detail

}  // namespace diptych
