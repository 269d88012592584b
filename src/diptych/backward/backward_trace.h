// A run of autograd's engine as a graph: its nodes are replayed on stand-ins for the tensors that they have saved.
#pragma once
#include <stdexcept>

#include "diptych/backward/hook_graph.h"
#include "diptych/backward/run_key.h"
#include "diptych/base/error.h"

namespace diptych::detail {

struct BackwardTrace {
  Graph graph;  ///< from the tensors of a RunContents, in order, to the results of the run or of its ending
  std::vector<MaybeUndefined> maybe_undefined;  ///< per result; see Note [Undefined on the way]
  size_t num_numbers = 0;
  MaybeUndefined dense;             ///< numbers of the eager results that an ending takes, which must not be sparse
  std::vector<bool> accumulations;  ///< by call, whether it accumulates a gradient and calls no hook
  bool runs_user_code = false;      ///< hooks, or eager nodes other than an accumulation without hooks
  std::vector<HookUse> hooks;       ///< those that are nodes: see Note [Hooks as nodes]
  std::vector<at::Tensor> read;     ///< by hooks; the graph takes them behind the other tensors
};

/// Thrown for a node that can't be replayed on stand-ins.
class UnsupportedNode : public std::runtime_error {
 public:
  UnsupportedNode(size_t call, const std::string& reason) : std::runtime_error(reason), call_(call) {}
  size_t call() const { return call_; }

 private:
  size_t call_;
};

/// Thrown for a node that was not restored after its replay.
class LostNode : public InternalError {
 public:
  using InternalError::InternalError;
};

/// Traces a run. `stays_eager`: calls whose nodes are eager nodes, besides those that `contents` names. `sizes`: those
/// of the key, or others in their place; the run is traced as if its nodes had them. `hooks`: which may become nodes.
/// Nothing is run, and the nodes are left as they were. Threads: one at a time in the process. Requires: the engine's
/// task is current on this thread, with its grad mode. Errors: UnsupportedNode; LostNode; what the ending throws.
BackwardTrace trace_backward(const std::vector<RunCall>& calls, RunContents& contents,
                             const std::vector<bool>& stays_eager, const std::vector<int64_t>& sizes, HookMode hooks);

}  // namespace diptych::detail
