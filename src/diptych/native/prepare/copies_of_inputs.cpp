#include "diptych/native/prepare/copies_of_inputs.h"

#include <map>

#include "diptych/graph/rewrite.h"
#include "diptych/ops/emitter.h"
#include "diptych/ops/tags.h"
#include "diptych/passes/storage_roots.h"

namespace diptych::detail {
namespace {

constexpr int64_t kTimesSmaller = 16;

bool is_contiguous(const TensorMeta& meta) {
  int64_t stride = 1;
  for (size_t dim = meta.sizes.size(); dim-- > 0;) {
    if (meta.strides[dim].hint() != stride) return false;
    stride *= meta.sizes[dim].hint();
  }
  return true;
}

bool may_be_copied(const Graph& graph, Value value, const Node& reader) {
  if (graph.info(value).kind != ValueInfo::Kind::kInput) return false;
  const TensorMeta& meta = graph.meta(value);
  return meta.is_static() && meta.device.is_cpu() && c10::isFloatingType(meta.dtype) && meta.numel() > 0 &&
         is_contiguous(meta) && meta.numel() * kTimesSmaller <= graph.meta(reader.outputs[0]).numel();
}

bool may_read_copies(const Node& node) {
  return !node.op.is_hop() && has_tag(node.op, Tag::kPointwise) && node.provenance.phase == Phase::kForward &&
         node.provenance.marks.decision() == Rematerialize::kAuto && node.outputs.size() == 1 && node.outputs[0];
}

}  // namespace

Graph with_copies_of_small_inputs(const Graph& joint) {
  if (has_mutation(joint)) return joint;
  Rewriter rewriter(joint);
  rewriter.copy_inputs();
  std::map<Value, Value> inputs, copies;  // of the new graph, by value of the joint graph
  for (const Value input : joint.inputs()) inputs.emplace(input, rewriter[input]);
  for (const Node& node : joint.nodes()) {
    std::vector<Value> copied;
    if (may_read_copies(node)) {
      for_each_operand_value(node, [&](Value value) {
        if (may_be_copied(joint, value, node)) copied.push_back(value);
      });
    }
    for (const Value value : copied) {
      const auto [copy, is_new] = copies.emplace(value, Value{});
      if (is_new)
        copy->second = Emitter(rewriter.graph(), node, InternedString("copy")).call("aten.clone", {inputs[value]});
      rewriter.map(value, copy->second);
    }
    rewriter.copy_node(node);
    for (const Value value : copied) rewriter.map(value, inputs[value]);
  }
  return rewriter.finish();
}

}  // namespace diptych::detail
