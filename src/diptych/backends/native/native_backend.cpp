#include "diptych/backends/native/native_backend.h"

#include "diptych/backends/native/fused_node.h"
#include "diptych/backends/native/fusion/fuse.h"
#include "diptych/backends/native/kernel_code.h"
#include "diptych/backends/native/prepare.h"
#include "diptych/base/error.h"
#include "diptych/interpreter/hop_rules.h"
#include "diptych/interpreter/program.h"
#include "diptych/passes/run_pass.h"

namespace diptych::detail {
namespace {

class NativeExecutable final : public Executable {
 public:
  explicit NativeExecutable(const Graph& graph) : program_(graph) {}
  std::vector<at::Tensor> run(std::vector<at::Tensor>&& inputs) const override {
    return program_.run(std::move(inputs));
  }
  const Graph& graph() const { return program_.graph(); }

 private:
  Program program_;
};

void list_kernels(const Graph& graph, std::vector<NativeKernel>& kernels) {
  for (const Node& node : graph.nodes()) {
    if (is_fused(node)) {
      const Graph& body = *node.subgraphs[0];
      kernels.push_back({body.name(), body.nodes().size(), code_of(node.subgraphs[0])->problem});
      continue;
    }
    for (const auto& body : node.subgraphs) list_kernels(*body, kernels);
  }
}

}  // namespace

Graph NativeBackend::prepare_joint(const Graph& joint) const { return with_composites_in_parts(joint); }

Graph NativeBackend::prepare(const Graph& graph) const { return in_kernel_operators(graph); }

bool NativeBackend::supports(const Graph& /*graph*/, const Node& node) const {
  return !node.op.is_hop() || has_interpreter_rule(node.op.hop());
}

std::shared_ptr<const Executable> NativeBackend::compile(const Graph& graph) const {
  const Graph fused = run_pass("fuse", graph, [](const Graph& from) { return fuse(from, becomes_kernel); });
  make_codes(fused);
  return std::make_shared<NativeExecutable>(fused);
}

std::vector<NativeKernel> native_kernels(const Executable& executable) {
  std::vector<NativeKernel> kernels;
  if (const auto* native = dynamic_cast<const NativeExecutable*>(&executable)) list_kernels(native->graph(), kernels);
  return kernels;
}

const Graph& fused_graph(const Executable& executable) {
  const auto* native = dynamic_cast<const NativeExecutable*>(&executable);
  DIPTYCH_ASSERT(native != nullptr, "fused_graph() got an executable that backend 'native' did not make");
  return native->graph();
}

}  // namespace diptych::detail
