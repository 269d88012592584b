// The partition that saves the fewest bytes while recomputing only what is cheap.
#include <algorithm>

#include "diptych/ops/cost.h"
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

// What is computed again within a kernel costs no pass over memory, so operations count: saving a float32 and reading
// it again takes as long as some eight cheap ones, or nearly one function.
std::optional<int64_t> price_within_kernel(const Graph& graph, const Node& node) {
  const auto price = price_of_recomputing(graph, node);
  return price ? std::optional(*price + cost(graph, node).flops * kPricePerFlop) : std::nullopt;
}

using Price = std::optional<int64_t>(const Graph&, const Node&);

std::vector<Value> cut_at(const JointAnalysis& analysis, Price* price, PrimalPrice primals) {
  const auto recompute = [&](const Node& node) { return price(analysis.graph(), node); };
  const auto wanted = primals == PrimalPrice::kAsEager ? Wanted::kEagersSaves : Wanted::kRead;
  return cut_joint(analysis, {recompute, primals, wanted}).saved;
}

std::vector<Value> choose(const Joint& joint) {
  const JointAnalysis analysis(joint);
  auto saved = cut_at(analysis, price_of_recomputing, PrimalPrice::kLittle);
  // Pricing primals can trade an input for a smaller new value. That must not make the forward keep more than eager.
  const bool keeps_more = analysis.new_bytes(saved) > analysis.new_bytes(analysis.required(/*either_is_late=*/true));
  return keeps_more ? cut_at(analysis, price_of_recomputing, PrimalPrice::kNothing) : saved;
}

}  // namespace

Partitioner min_cut() { return {"min_cut", choose}; }

Partitioner hidden_min_cut() {
  return {"hidden_min_cut",
          [](const Joint& joint) { return cut_at(JointAnalysis(joint), price_within_kernel, PrimalPrice::kAsEager); }};
}

}  // namespace diptych
