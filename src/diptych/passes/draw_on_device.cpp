#include "diptych/passes/draw_on_device.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "diptych/graph/hop_attributes.h"
#include "diptych/graph/rewrite.h"
#include "diptych/graph/subgraphs.h"
#include "diptych/ops/samplers.h"
#include "diptych/ops/tags.h"
#include "diptych/passes/decompose.h"
#include "diptych/passes/remove_dead_nodes.h"

namespace diptych::detail {
namespace {

/// Note [Draws from a seed]
/// A graph draws one seed on the host in each run, and takes all bits from the stream that begins there, one draw after
/// another. A loop or a branch gets a seed of its own from that stream. A loop carries the state of its stream from
/// step to step, so that no two steps draw alike; the condition of a while_loop, which returns no state, draws from the
/// stream of the complemented state. What a graph saves for its backward are the numbers, or masks, as ever.

// How the state enters a higher-order operator, and which of its bodies take it.
struct StatefulHop {
  std::string_view name;
  std::string_view group;  ///< of operands, the first in the bodies' inputs; the state follows it
  bool is_loop;            ///< whether the group is carried, and the last body returns the next state
  bool has_condition;      ///< whether the first body only decides
};
constexpr StatefulHop kStatefulHops[] = {{"scan", "init", true, false},
                                         {"blocked_scan", "init", true, false},
                                         {"while_loop", "init", true, true},
                                         {"cond", "args", false, false},
                                         {"invoke", "args", false, false}};

const StatefulHop* find_stateful_hop(const Node& node) {
  if (!node.op.is_hop()) return nullptr;
  const auto* const row = std::find_if(std::begin(kStatefulHops), std::end(kStatefulHops),
                                       [&](const StatefulHop& hop) { return hop.name == node.op.hop().name(); });
  return row == std::end(kStatefulHops) ? nullptr : row;
}

// Composites that draw become draws and arithmetic.
Graph in_plain_draws(const Graph& graph) {
  return decompose(graph, [](const Graph&, const Node& node) { return !draws_random(node); });
}

bool can_sample(const Graph& graph);

// Requires: a node of a graph in plain draws.
bool can_sample(const Graph& graph, const Node& node) {
  if (!draws_random(node)) return false;
  if (find_stateful_hop(node) == nullptr) return find_sampler(graph, node) != nullptr;
  return any_subgraph(node, [](const Graph& body) { return can_sample(in_plain_draws(body)); });
}

bool can_sample(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [&](const Node& node) { return can_sample(graph, node); });
}

// Copies one graph and keeps the state of its stream.
class SeededCopy {
 public:
  explicit SeededCopy(const Graph& graph) : graph_(in_plain_draws(graph)), rewriter_(graph_) {}

  Graph whole() {
    const auto first = std::find_if(graph_.nodes().begin(), graph_.nodes().end(),
                                    [&](const Node& node) { return can_sample(graph_, node); });
    if (first == graph_.nodes().end()) return graph_;
    rewriter_.copy_inputs();
    Node like = *first;
    like.provenance.grad_of = {};
    state_ = emitter(like).call("aten.randint.low",
                                {c10::IValue(std::numeric_limits<int64_t>::min()),
                                 c10::IValue(std::numeric_limits<int64_t>::max()), c10::IValue(std::vector<int64_t>{2}),
                                 c10::IValue(at::kLong), c10::IValue(), c10::IValue(c10::Device(c10::kCPU))});
    copy_nodes();
    return remove_dead_nodes(rewriter_.finish());
  }

  // Requires: `like` is the node whose body the graph is. The state is input `position`.
  Graph condition(size_t position, const Node& like) {
    begin_body(position);
    state_ = emitter(like).call("aten.bitwise_not", {state_});
    copy_nodes();
    return remove_dead_nodes(rewriter_.finish());
  }

  Graph branch(size_t position) {
    begin_body(position);
    copy_nodes();
    return remove_dead_nodes(rewriter_.finish());
  }

  // A step also returns the next state, as output `position`.
  Graph step(size_t position, const Node& like) {
    const Value begun = begin_body(position);
    copy_nodes();
    // If only the condition draws, it must not draw alike before each step.
    if (state_ == begun) next_seed(like);
    Graph result = rewriter_.finish();
    auto outputs = result.outputs();
    auto slots = result.output_slots();
    outputs.insert(outputs.begin() + static_cast<int64_t>(position), state_);
    slots.insert(slots.begin() + static_cast<int64_t>(position), {SlotKind::kOutput, "draws.state"});
    result.set_outputs(std::move(outputs), std::move(slots));
    return remove_dead_nodes(result);
  }

 private:
  Emitter emitter(const Node& like) { return {rewriter_.graph(), like, InternedString("draw_on_device")}; }

  Value begin_body(size_t position) {
    for (size_t i = 0; i <= graph_.inputs().size(); ++i) {
      if (i == position) state_ = rewriter_.graph().add_input(state_meta(), {SlotKind::kArgument, "draws.state"});
      if (i < graph_.inputs().size()) rewriter_.add_input(graph_.inputs()[i], graph_.input_slots()[i]);
    }
    return state_;
  }

  static TensorMeta state_meta() {
    TensorMeta meta;
    meta.dtype = at::kLong;
    meta.sizes = {SizeExpr(2)};
    meta.strides = {SizeExpr(1)};
    return meta;
  }

  void copy_nodes() {
    for (const Node& node : graph_.nodes()) {
      if (!can_sample(graph_, node)) {
        rewriter_.copy_node(node);
      } else if (const StatefulHop* const hop = find_stateful_hop(node)) {
        copy_hop(*hop, node);
      } else {
        sample(node);
      }
    }
  }

  void sample(const Node& node) {
    const auto operands = rewriter_.map_operands(node);
    Node like = node;
    like.provenance.grad_of = {};
    Emitter writer = emitter(like);
    BitStream bits(writer, state_);
    const TensorMeta& wanted = graph_.meta(node.outputs[0]);
    const Expr drawn =
        find_sampler(graph_, node)->sample(Call(writer, node, {operands.data(), operands.size()}), wanted, bits);
    rewriter_.map(node.outputs[0], writer.with_strides(drawn.value, wanted));
    state_ = bits.state();
  }

  // Takes the first state of another stream from this one.
  Value next_seed(const Node& like) {
    Node plain = like;
    plain.provenance.grad_of = {};
    Emitter writer = emitter(plain);
    BitStream bits(writer, state_);
    const Expr seed = bits.take({2}, at::kLong);
    state_ = bits.state();
    return seed.value;
  }

  std::vector<std::shared_ptr<const Graph>> seeded_bodies(const StatefulHop& hop, const Node& node, size_t position) {
    Node like = node;
    like.provenance.grad_of = {};
    std::vector<std::shared_ptr<const Graph>> bodies;
    for (size_t i = 0; i < node.subgraphs.size(); ++i) {
      SeededCopy body(*node.subgraphs[i]);
      const bool only_decides = hop.has_condition && i == 0;
      bodies.push_back(std::make_shared<const Graph>(only_decides  ? body.condition(position, like)
                                                     : hop.is_loop ? body.step(position, like)
                                                                   : body.branch(position)));
    }
    return bodies;
  }

  void copy_hop(const StatefulHop& hop, const Node& node) {
    const size_t position = group_of(node, hop.group).size();
    const auto bodies = seeded_bodies(hop, node, position);
    const Value seed = next_seed(node);
    Node copy{node.op, rewriter_.map_operands(node), {}, {}, bodies, node.provenance, node.grad_enabled};
    copy.provenance.grad_of = {};
    std::get<ValueList>(copy.operands[group_index(node, hop.group)]).push_back(seed);
    std::vector<std::optional<TensorMeta>> metas;
    for (const Value output : node.outputs) {
      metas.push_back(output ? std::optional(graph_.meta(output)) : std::nullopt);
    }
    if (hop.is_loop) metas.insert(metas.begin() + static_cast<int64_t>(position), state_meta());
    copy.returns = {static_cast<int32_t>(metas.size())};
    const size_t index = rewriter_.graph().add_node(std::move(copy), std::move(metas));
    const auto& outputs = rewriter_.graph().nodes()[index].outputs;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const bool is_behind = hop.is_loop && i >= position;
      if (node.outputs[i]) rewriter_.map(node.outputs[i], outputs[i + (is_behind ? 1 : 0)]);
    }
  }

  static size_t group_index(const Node& node, std::string_view group) {
    const auto& arguments = node.op.schema().arguments();
    return std::find_if(arguments.begin(), arguments.end(),
                        [&](const c10::Argument& argument) { return argument.name() == group; }) -
           arguments.begin();
  }

  const Graph graph_;
  Rewriter rewriter_;
  Value state_;
};

}  // namespace

Graph draw_on_device(const Graph& graph) {
  const bool draws = std::any_of(graph.nodes().begin(), graph.nodes().end(), draws_random);
  return draws ? SeededCopy(graph).whole() : graph;
}

}  // namespace diptych::detail
