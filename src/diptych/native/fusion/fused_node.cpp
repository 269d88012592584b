#include "diptych/native/fusion/fused_node.h"

#include "diptych/graph/hop_attributes.h"
#include "diptych/ops/hop_schemas.h"

namespace diptych::detail {

const HopSchema& fused_schema() {
  static const HopSchema* const known = [] {
    const HopSchema* const added = add_hop_schema("fused(Tensor[] inputs)", {"body"});
    register_interpreter_rule(*added, fused_rule, HopSizes::kAny);
    return added;
  }();
  return *known;
}

bool is_fused(const Node& node) { return node.op.is_hop() && &node.op.hop() == &fused_schema(); }

bool may_fuse_bodies(const Node& node) {
  return node.op.is_hop() && !is_fused(node) && &node.op.hop() != find_hop_schema("vjp");
}

Node make_fused_node(std::shared_ptr<const Graph> body, const ValueList& inputs) {
  return make_hop_node(fused_schema(), {inputs}, {fused_schema(), {}}, {std::move(body)});
}

}  // namespace diptych::detail
