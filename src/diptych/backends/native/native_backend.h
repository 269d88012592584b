// Runs graphs as native kernels, made by LLVM for this machine.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "diptych/backends/backend.h"

namespace diptych::detail {

/// One kernel of an executable, or a group of nodes that the interpreter runs because no kernel could be made of it.
struct NativeKernel {
  std::string name;
  size_t num_nodes = 0;
  std::string problem;  ///< why there is no kernel; empty if there is one
};

/// Groups nodes into kernels and leaves all other nodes (products, convolutions, draws) to the interpreter, which runs
/// the whole graph and calls the kernels. Where sizes are dynamic, a kernel serves all of them. A kernel that can't be
/// made costs speed and nothing else: the interpreter runs its nodes.
class NativeBackend final : public Backend {
 public:
  std::string name() const override { return "native"; }
  Partitioner partition() const override { return hidden_min_cut(); }  ///< kernels compute cheap values again for less
  Graph prepare_joint(const Graph& joint) const override;
  Graph prepare(const Graph& graph) const override;
  bool may_be_interpreted() const override { return true; }
  bool supports(const Graph& graph, const Node& node) const override;
  /// Errors: UserError names a node that nobody runs.
  std::shared_ptr<const Executable> compile(const Graph& graph) const override;
};

/// The kernels of an executable that NativeBackend made, those in bodies included, in the order of their nodes; empty
/// for any other.
std::vector<NativeKernel> native_kernels(const Executable& executable);

/// The graph that such an executable runs, with hop.fused nodes. Requires: one that NativeBackend made.
const Graph& fused_graph(const Executable& executable);

}  // namespace diptych::detail
