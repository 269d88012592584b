// The partition that saves the fewest bytes while recomputing only what is cheap.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "diptych/ops/cost.h"
#include "diptych/ops/related_operators.h"
#include "diptych/ops/tags.h"
#include "diptych/passes/partition_flow.h"

namespace diptych {

using namespace detail;
namespace {

// A value smaller than this is saved rather than computed by another call of an operator.
constexpr int64_t kCallInBytes = 8;

// With functions at ten operations, one of them costs a little more than saving the four bytes of its result.
constexpr int64_t kPricePerFlop = 29;

// Reducing a whole dimension reads much to write little, so its result is worth keeping, and a normalization or softmax
// goes over its input several times; only sums over a few elements are cheap.
bool is_cheap_reduction(const Graph& graph, const Node& node) {
  int64_t read = 0;
  int64_t written = 0;
  for_each_operand_value(node, [&](Value value) { read += graph.meta(value).nbytes(); });
  for (const Value output : node.outputs) written += output ? graph.meta(output).nbytes() : 0;
  return written < read && written * 4 >= read;
}

// Source: the rules of PyTorch's min_cut_rematerialization_partition about what may be recomputed; its bans on long
// chains follow here from the price, which adds up: after some sixty copies of its size a value is better saved.
std::optional<int64_t> price_of_recomputing(const Graph& graph, const Node& node) {
  const uint32_t known = tags(node.op);
  const auto has = [known](Tag tag) { return (known & static_cast<uint32_t>(tag)) != 0; };
  if (has(Tag::kComputeHeavy) || has(Tag::kDataDependent)) return std::nullopt;
  const bool is_cheap = has(Tag::kPointwise) || has(Tag::kCopy) || has(Tag::kGather) || has(Tag::kFactory);
  if (!is_cheap && !(has(Tag::kReduction) && is_cheap_reduction(graph, node))) return std::nullopt;
  int64_t written = 0;
  for (const Value output : node.outputs) written += output ? graph.meta(output).nbytes() : 0;
  return written + kCallInBytes * detail::kPricePerByte;
}

// The activations that gradients compute anyway: gelu_backward(g, x) has the functions of gelu(x).
class GradientsOfActivations {
 public:
  explicit GradientsOfActivations(const Graph& graph) {
    for (const Node& node : graph.nodes()) {
      const auto function = function_of_gradient(node.op);
      if (!function) continue;
      for_each_operand_value(node, [&](Value value) { known_.emplace(function->name(), value.id); });
    }
  }
  bool compute(const Node& node) const {
    const auto* value = node.operands.empty() ? nullptr : std::get_if<Value>(&node.operands[0]);
    return value != nullptr && has_tag(node.op, Tag::kPointwise) && known_.contains({node.op.name(), value->id});
  }

 private:
  std::set<std::pair<std::string, int32_t>> known_;
};

// What is computed again within a kernel costs no pass over memory, so operations count: saving a float32 and reading
// it again takes as long as some eight cheap ones, or nearly one function. What the gradient's kernel computes anyway
// costs one.
std::optional<int64_t> price_within_kernel(const Graph& graph, const Node& node,
                                           const GradientsOfActivations& gradients) {
  const auto price = price_of_recomputing(graph, node);
  if (!price) return std::nullopt;
  const int64_t flops = gradients.compute(node) ? graph.meta(node.outputs[0]).numel() : cost(graph, node).flops;
  return *price + flops * kPricePerFlop;
}

std::vector<Value> choose(const Joint& joint) {
  const JointAnalysis analysis(joint);
  const auto price = [&](const Node& node) { return price_of_recomputing(analysis.graph(), node); };
  auto saved = cut_joint(analysis, {price, PrimalPrice::kLittle}).saved;
  // Pricing primals can trade an input for a smaller new value. That must not make the forward keep more than eager.
  const bool keeps_more = analysis.new_bytes(saved) > analysis.new_bytes(analysis.required(/*either_is_late=*/true));
  return keeps_more ? cut_joint(analysis, {price, PrimalPrice::kNothing}).saved : saved;
}

}  // namespace

Partitioner min_cut() { return {"min_cut", choose}; }

Partitioner hidden_min_cut() {
  return {"hidden_min_cut", [](const Joint& joint) {
            const JointAnalysis analysis(joint);
            const GradientsOfActivations gradients(joint.graph);
            const auto price = [&](const Node& node) { return price_within_kernel(joint.graph, node, gradients); };
            return cut_joint(analysis, {price, PrimalPrice::kAsEager}).saved;
          }};
}

}  // namespace diptych
