#include "diptych/native/native_backend.h"

#include "diptych/base/check.h"
#include "diptych/interpreter/allocated_results.h"
#include "diptych/interpreter/hop_rules.h"
#include "diptych/interpreter/program.h"
#include "diptych/native/call/kernel_check.h"
#include "diptych/native/call/kernel_code.h"
#include "diptych/native/fusion/fuse.h"
#include "diptych/native/fusion/fused_node.h"
#include "diptych/native/memory/result_pool.h"
#include "diptych/native/plan/planned_node.h"
#include "diptych/native/prepare/copies_of_inputs.h"
#include "diptych/native/prepare/prepare.h"
#include "diptych/passes/run_pass.h"

namespace diptych::detail {
namespace {

class NativeExecutable final : public Executable {
 public:
  NativeExecutable(const Graph& graph, const Graph& fused, bool checks_kernels)
      : graph_(graph), program_(fused), checks_kernels_(checks_kernels) {}
  std::vector<at::Tensor> run(std::vector<at::Tensor>&& inputs) const override {
    const ResultAllocatorScope products_too(*result_pool());
    if (!checks_kernels_) return program_.run(std::move(inputs));
    const KernelCheckScope checked;
    return program_.run(std::move(inputs));
  }
  const Graph& graph() const { return graph_; }
  const Graph& fused() const { return program_.graph(); }

 private:
  const Graph graph_;
  Program program_;
  bool checks_kernels_;
};

const NativeExecutable* find_native(const Executable& executable) {
  return dynamic_cast<const NativeExecutable*>(&executable);
}

const NativeExecutable& native(const Executable& executable) {
  const auto* found = find_native(executable);
  DIPTYCH_ASSERT(found != nullptr, "got an executable that backend 'native' did not make");
  return *found;
}

void list_kernels(const Graph& graph, std::vector<NativeKernel>& kernels) {
  for (const Node& node : graph.nodes()) {
    if (is_fused(node)) {
      kernels.emplace_back(node.subgraphs[0]);
      continue;
    }
    for (const auto& body : node.subgraphs) list_kernels(*body, kernels);
  }
}

}  // namespace

Graph NativeBackend::prepare_joint(const Graph& joint) const {
  return with_copies_of_small_inputs(with_composites_in_parts(joint));
}

Graph NativeBackend::prepare(const Graph& graph) const { return in_kernel_operators(graph); }

bool NativeBackend::supports(const Graph& /*graph*/, const Node& node) const {
  return !node.op.is_hop() || has_interpreter_rule(node.op.hop());
}

std::shared_ptr<const Executable> NativeBackend::compile(const Graph& graph) const {
  const Graph fused =
      run_pass("fuse", graph, [](const Graph& from) { return with_planned_loops(fuse(from, becomes_kernel)); });
  make_codes(fused);
  return std::make_shared<NativeExecutable>(graph, fused, checks_kernels_);
}

bool is_native(const Executable& executable) { return find_native(executable) != nullptr; }

std::vector<NativeKernel> native_kernels(const Executable& executable) {
  std::vector<NativeKernel> kernels;
  list_kernels(fused_graph(executable), kernels);
  return kernels;
}

const Graph& fused_graph(const Executable& executable) { return native(executable).fused(); }

const Graph& unfused_graph(const Executable& executable) { return native(executable).graph(); }

}  // namespace diptych::detail
