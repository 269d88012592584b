// Hooks that only compute, as graphs: what they are while a pass is traced, and whether they still are in a later one.
#pragma once
#include <memory>
#include <vector>

#include "diptych/backward/eager_nodes.h"

namespace diptych::detail {

/// Note [Hooks as nodes]: a hook is code, and in the graph of a pass stands what it computes, if that is all that it
/// does. Whoever knows the language that hooks are written in reads them (a HookReader): what the code may do besides
/// calling operators, its graph, and which variables and tensors it reads. Before each run the reader says whether the
/// hooks of the pass at hand would give the same graph; the pass is captured anew where they would not, and after a few
/// times its hooks run live.
/// A graph is asked before the pass begins, and a hook would read its variables in the middle of it. So what reads any
/// runs live wherever other code of the user's runs in the pass; so does what reads a tensor in whose memory the pass
/// accumulates a gradient, or is called with what code that runs live has returned: it may be missing, or sparse.
struct HookGraph {
  HookGraph() = default;
  HookGraph(const HookGraph&) = delete;
  HookGraph& operator=(const HookGraph&) = delete;
  virtual ~HookGraph() = default;
  /// Whether the hooks of a node, of a pass that is about to run, are these and read the same.
  virtual bool holds(const torch::autograd::Node& node, EagerStage stage) const = 0;
  /// Computes the stage's defined results from its defined gradients, then stand-ins of `read`, under a trace.
  virtual std::vector<at::Tensor> record(std::vector<at::Tensor>&& inputs) const = 0;

  std::vector<at::Tensor> read;  ///< tensors that the hooks read besides
  bool is_constant = false;      ///< whether nothing but their code says what they compute
};

/// Returns the graph of a stage of hooks, called with the stand-ins `gradients` of the present trace; null if they have
/// to run live. Throws nothing.
using HookReader = std::shared_ptr<const HookGraph> (*)(const torch::autograd::Node& node, EagerStage stage,
                                                        const torch::autograd::variable_list& gradients);

/// Sets the reader of hooks in another language. Set it once, before any run is captured; without it they run live.
void set_hook_reader(HookReader reader);

/// Does what a HookReader does, for the hooks of C++ and those of the other language.
std::shared_ptr<const HookGraph> graph_of_hooks(const torch::autograd::Node& node, EagerStage stage,
                                                const torch::autograd::variable_list& gradients);

/// Which hooks become nodes.
enum class HookMode : uint8_t { kAll, kConstant, kNone };

/// Hooks that a trace has made nodes of.
struct HookUse {
  size_t call;
  EagerStage stage;
  std::shared_ptr<const HookGraph> graph;
};

/// Whether the hooks of a pass are those that a graph holds nodes of.
bool hooks_hold(const std::vector<HookUse>& uses, const std::vector<RunCall>& calls);

}  // namespace diptych::detail
