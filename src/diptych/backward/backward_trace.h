// A task of autograd's engine as a graph: its nodes are replayed on stand-ins for the tensors that they have saved.
#pragma once
#include <stdexcept>

#include "diptych/backward/eager_nodes.h"
#include "diptych/backward/run_key.h"
#include "diptych/base/error.h"

namespace diptych::detail {

struct BackwardTrace {
  Graph graph;  ///< from the tensors of a RunContents, in order, to the task's results, or to those of its ending
  std::vector<MaybeUndefined> maybe_undefined;  ///< per result; see Note [Undefined on the way]
  size_t num_numbers = 0;
  MaybeUndefined dense;         ///< eager results that an ending takes
  bool runs_user_code = false;  ///< hooks, or nodes that are run as they are; gradients are accumulated so, too
};

/// A node that can't be replayed on stand-ins.
class UnsupportedNode : public std::runtime_error {
 public:
  UnsupportedNode(size_t call, const std::string& reason) : std::runtime_error(reason), call_(call) {}
  size_t call() const { return call_; }

 private:
  size_t call_;
};

/// A node that was not put back in order after it had been replayed.
class LostNode : public InternalError {
 public:
  using InternalError::InternalError;
};

/// Traces a task. `stays_eager`: calls to run as they are besides those that `contents` names. `sizes`: those of the
/// key, or others in their place, for which the task is traced as if its nodes had them. Nothing is run, no hook is
/// called, and the nodes are left as they were. Threads: one at a time in the process. Requires: the engine's task is
/// current on this thread, with its grad mode. Errors: UnsupportedNode; LostNode; what the ending throws.
BackwardTrace trace_backward(const std::vector<RunCall>& calls, RunContents& contents,
                             const std::vector<bool>& stays_eager, const std::vector<int64_t>& sizes);

}  // namespace diptych::detail
