#include "diptych/native/plan/planned_node.h"

#include "diptych/base/log.h"
#include "diptych/graph/hop_attributes.h"
#include "diptych/graph/rewrite.h"
#include "diptych/interpreter/hop_rules.h"
#include "diptych/interpreter/lazy_program.h"
#include "diptych/native/call/kernel_check.h"
#include "diptych/native/call/kernel_times.h"
#include "diptych/native/fusion/fused_node.h"
#include "diptych/native/fusion/single_node.h"
#include "diptych/native/plan/loop_maker.h"
#include "diptych/native/plan/plan.h"
#include "diptych/ops/hop_schemas.h"
#include "diptych/ops/tags.h"

namespace diptych::detail {
namespace {

/// A body made ready to be called. Threads: run() may be called from any number at once.
class PlannedCall {
 public:
  explicit PlannedCall(const std::shared_ptr<const Graph>& body) : program_(*body), planned_(plan_of(body)) {
    log(Log::kKernels, [&] {
      const std::string name = body->nodes()[0].op.name();
      if (planned_->plan == nullptr) return fmt::format("the interpreter runs {}: {}", name, planned_->why);
      return fmt::format("planned {}: {} bytes besides operands and results", name, planned_->plan->memory_bytes());
    });
  }

  std::vector<at::Tensor> run(std::vector<at::Tensor>&& inputs, const RunOptions& options) const {
    const bool is_native =
        planned_->plan != nullptr && !options.differentiable && !is_kernel_checked() && !times_kernels();
    if (is_native) {
      auto outputs = planned_->plan->run(inputs);
      if (!outputs.empty()) return outputs;
    }
    return program_->run(std::move(inputs), {.differentiable = options.differentiable});
  }

 private:
  LazyProgram program_;
  std::shared_ptr<const PlanOfBody> planned_;
};

HopKernel make_planned_kernel(const Node& node) {
  return [call = std::make_shared<const PlannedCall>(node.subgraphs[0])](std::vector<c10::IValue>&& operands,
                                                                         const RunOptions& options) {
    return call->run(take_tensor_list(operands[0]), options);
  };
}

Node with_planned_bodies(const Node& node) {
  Node changed = node;
  if (!may_fuse_bodies(node)) return changed;
  for (auto& body : changed.subgraphs) body = std::make_shared<const Graph>(with_planned_loops(*body));
  return changed;
}

// The node around one of `graph`.
Node make_planned_node(const Graph& graph, const Node& node, Rewriter& rewriter) {
  ValueList inputs;
  for (const Value value : inputs_of_one(graph, node)) inputs.push_back(rewriter[value]);
  auto body = std::make_shared<const Graph>(graph_of_one(graph, node));
  Node planned = make_hop_node(planned_schema(), {inputs}, {planned_schema(), {}}, {body});
  planned.provenance = node.provenance;
  planned.grad_enabled = node.grad_enabled;
  planned.returns.assign(body->outputs().size(), -1);
  return planned;
}

}  // namespace

const HopSchema& planned_schema() {
  static const HopSchema* const known = [] {
    const HopSchema* const added = add_hop_schema("planned(Tensor[] inputs)", {"body"});
    register_interpreter_rule(*added, make_planned_kernel);
    return added;
  }();
  return *known;
}

bool is_planned(const Node& node) { return node.op.is_hop() && &node.op.hop() == &planned_schema(); }

Graph with_planned_loops(const Graph& graph) {
  Rewriter rewriter(graph);
  rewriter.copy_inputs();
  for (const Node& node : graph.nodes()) {
    const Node changed = with_planned_bodies(node);
    if (!is_planned_loop(node) || has_effect(node)) {
      rewriter.copy_node(changed);
      continue;
    }
    Node planned = make_planned_node(graph, changed, rewriter);
    std::vector<std::optional<TensorMeta>> metas;
    for (const Value output : node.outputs) {
      if (output) metas.emplace_back(graph.meta(output));
    }
    const size_t index = rewriter.graph().add_node(std::move(planned), std::move(metas));
    size_t next = 0;
    for (const Value output : node.outputs) {
      if (output) rewriter.map(output, rewriter.graph().nodes()[index].outputs[next++]);
    }
  }
  return rewriter.finish();
}

}  // namespace diptych::detail
