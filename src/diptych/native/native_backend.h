// Runs graphs as native kernels, made by LLVM for this machine.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "diptych/backend/backend.h"
#include "diptych/native/native_graph.h"

namespace diptych::detail {

/// Groups nodes into kernels and leaves all other nodes (products, convolutions, draws) to the interpreter, which runs
/// the whole graph and calls the kernels. Where sizes are dynamic, a kernel serves all of them. A kernel that can't be
/// made costs speed and nothing else: the interpreter runs its nodes.
class NativeBackend final : public Backend {
 public:
  /// `checks_kernels`: whether runs compare the results of each kernel with the interpreter's (kernel_check.h).
  explicit NativeBackend(bool checks_kernels = false) : checks_kernels_(checks_kernels) {}
  std::string name() const override { return "native"; }
  Partitioner partition() const override { return hidden_min_cut(); }  ///< kernels compute cheap values again for less
  Graph prepare_joint(const Graph& joint) const override;
  Graph prepare(const Graph& graph) const override;
  bool may_be_interpreted() const override { return true; }
  bool supports(const Graph& graph, const Node& node) const override;
  /// Errors: UserError names a node that nobody runs.
  std::shared_ptr<const Executable> compile(const Graph& graph) const override;

 private:
  bool checks_kernels_;
};

/// Whether NativeBackend made an executable: the others below require that.
bool is_native(const Executable& executable);

/// The kernels of an executable, those in bodies included, in the order of their nodes.
std::vector<NativeKernel> native_kernels(const Executable& executable);

/// The graph that an executable runs, with hop.fused nodes, and the one that it was made of.
const Graph& fused_graph(const Executable& executable);
const Graph& unfused_graph(const Executable& executable);

}  // namespace diptych::detail
