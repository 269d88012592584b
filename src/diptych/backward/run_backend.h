// Captured backward runs by a backend: what is computed goes to it, what runs live stays where it is.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "diptych/backend/backend.h"
#include "diptych/backward/eager_nodes.h"

namespace diptych::detail {

inline constexpr const char* kInterpreter = "interpreter";

/// What runs the graphs of captured runs.
struct RunBackend {
  std::string name;                        ///< no other has it
  std::shared_ptr<const Backend> backend;  ///< null for the interpreter, which runs each graph as one Program
};

/// Returns a backend by its name, the same one each time; it is never freed. Errors: UserError lists the names.
/// Threads: any.
const RunBackend& run_backend(const std::string& name);

/// Returns a backend that has `compile` compile all that it is given.
std::shared_ptr<const RunBackend> run_backend_of(Compiler compile);

/// Whether a node runs code of a live backward, or changes tensors in place.
bool has_effects(const Node& node);

/// Note [Backward runs by a backend]
/// Between two nodes with effects a graph only computes. Each such piece is compiled for itself, so that nothing is
/// computed, drawn or viewed on the other side of code that a hook or an eager node runs: a hook may write to a
/// gradient, draw random numbers, or start a backward. Accumulations that call no hook are nobody's code, and move
/// behind the piece after them (accumulate_last).
/// What eager nodes return may differ from what was captured in one way that eager accepts: it may be sparse. A piece
/// that gets a tensor other than its graph says is run by the interpreter, as is a run that records gradients.

/// Makes a run's graph ready to run. `accumulations`: as for accumulate_last(). Requires: a backend that is not null.
/// Errors: UserError of the backend.
std::shared_ptr<const Executable> compile_run(const RunBackend& backend, const Graph& graph,
                                              const std::vector<bool>& accumulations);

}  // namespace diptych::detail
