#include "diptych/passes/partition_flow.h"

// g++ warns that the ends of Boost's ranges of edges, which are empty optionals, are uninitialized.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#include <limits>

#include "diptych/base/check.h"
#include "diptych/ops/tags.h"

namespace diptych::detail {
namespace {

constexpr int64_t kForbidden = std::numeric_limits<int64_t>::max() / 4;

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
using Edge = Traits::edge_descriptor;

struct VertexData {
  boost::default_color_type color{};
  int64_t distance = 0;
  Edge predecessor;
};
struct EdgeData {
  int64_t capacity = 0;
  int64_t residual = 0;
  Edge reverse;
};
using Network = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, VertexData, EdgeData>;

// Nodes that autograd recorded, yet are independent of tangents, run late where eager's own values are wanted.
std::vector<Value> wanted_values(const JointAnalysis& analysis, Wanted wanted) {
  return analysis.required(/*either_is_late=*/wanted == Wanted::kEagersSaves);
}

Wanted wanted_by(const FlowCosts& costs) {
  return costs.primals == PrimalPrice::kAsEager ? Wanted::kEagersSaves : Wanted::kRead;
}

constexpr size_t kSource = 0;
constexpr size_t kSink = 1;

/// Note [The cut]
/// Every node and every value that does not depend on a tangent is a vertex. A vertex on the sink's side is known in
/// the backward, one on the source's side only in the forward. A node that is run again needs its operands on its side,
/// hence the forbidden edge operand -> node; a value whose node is on the source's side and which itself is on the
/// sink's side is saved, hence the edge node -> value with the price of saving. Edges source -> node hold the price of
/// recomputing. Views share the storage of their base and cost nothing to run, so only the base can be saved.
class CutBuilder {
 public:
  CutBuilder(const JointAnalysis& analysis, const FlowCosts& costs)
      : analysis_(analysis),
        graph_(analysis.graph()),
        costs_(costs),
        required_(wanted_values(analysis, wanted_by(costs))) {
    mark_relevant();
    find_kept_storages();
    network_ = Network(2 + relevant_.size() + graph_.num_values());
    add_edges();
  }

  FlowChoice solve() {
    const auto index = boost::get(boost::vertex_index, network_);
    const int64_t flow = boost::boykov_kolmogorov_max_flow(
        network_, boost::get(&EdgeData::capacity, network_), boost::get(&EdgeData::residual, network_),
        boost::get(&EdgeData::reverse, network_), boost::get(&VertexData::predecessor, network_),
        boost::get(&VertexData::color, network_), boost::get(&VertexData::distance, network_), index, kSource, kSink);
    DIPTYCH_ASSERT(flow < kForbidden, "a value that the backward of '{}' needs can be neither saved nor recomputed",
                   graph_.name());
    const auto known = reaches_sink();
    FlowChoice choice;
    choice.recomputed.resize(graph_.nodes().size());
    for (size_t i = 0; i < graph_.nodes().size(); ++i) choice.recomputed[i] = relevant_[i] && known[node_vertex(i)];
    choice.saved = saved_for(analysis_, choice.recomputed, wanted_by(costs_));
    return choice;
  }

 private:
  size_t node_vertex(size_t node) const { return 2 + node; }
  size_t value_vertex(Value value) const { return 2 + relevant_.size() + value.id; }

  // Only nodes that required values are computed from take part.
  void mark_relevant() {
    relevant_.assign(graph_.nodes().size(), false);
    std::vector<bool> wanted(graph_.num_values());
    for (const Value value : required_) wanted[value.id] = true;
    for (size_t i = graph_.nodes().size(); i-- > 0;) {
      for (const Value output : graph_.nodes()[i].outputs) relevant_[i] = relevant_[i] || (output && wanted[output.id]);
      if (relevant_[i]) for_each_operand_value(graph_.nodes()[i], [&](Value value) { wanted[value.id] = true; });
    }
  }

  // The user may write to a storage that the user holds after the forward. If eager saves it too, the write is an error
  // in eager as well; if eager does not, it must not be saved.
  void find_kept_storages() {
    eager_saves_.assign(graph_.num_values(), false);
    for (const Value value : analysis_.required(true)) eager_saves_[analysis_.root(value).id] = true;
  }

  int64_t price_of_saving(Value value) const {
    const int64_t bytes = graph_.meta(value).nbytes();
    if (analysis_.root(value) != value) return kForbidden;
    const bool is_primal = analysis_.is_primal(value);
    const bool is_as_eager = is_primal ? costs_.primals == PrimalPrice::kAsEager : analysis_.is_returned(value);
    if (is_as_eager) return eager_saves_[value.id] ? 0 : kForbidden;
    if (!is_primal) return bytes * kPricePerByte;
    if (costs_.primals == PrimalPrice::kNothing) return 0;
    // A leaf that gets a gradient outlives the backward; another input may live only until the call returns.
    return graph_.meta(value).requires_grad ? bytes : bytes * (kPricePerByte / 4);
  }

  // If a mark has decided, there is nothing to weigh. A node marked to be saved is not run again; of a node marked to
  // be recomputed, only values that leave their region get here, and they are saved for their readers outside it. Views
  // stay free, since the cut saves their bases.
  std::optional<int64_t> price_of_recomputing(size_t i) const {
    const Node& node = graph_.nodes()[i];
    if (has_effect(node)) return std::nullopt;
    if (has_tag(node.op, Tag::kSharesStorage)) return 0;
    if (analysis_.must_save(i) || analysis_.must_recompute(i)) return std::nullopt;
    return costs_.recompute(node);
  }

  void add_edge(size_t from, size_t to, int64_t capacity) {
    const Edge forward = boost::add_edge(from, to, network_).first;
    const Edge backward = boost::add_edge(to, from, network_).first;
    network_[forward].capacity = capacity;
    network_[forward].reverse = backward;
    network_[backward].reverse = forward;
  }

  void add_node_edges(size_t i) {
    const Node& node = graph_.nodes()[i];
    if (analysis_.place(i) == JointPlace::kForward) {
      const auto price = price_of_recomputing(i);
      if (!price || *price > 0) add_edge(kSource, node_vertex(i), price.value_or(kForbidden));
    }
    Value previous;
    for_each_operand_value(node, [&](Value value) {
      if (value != previous && !analysis_.is_constant(value)) add_edge(value_vertex(value), node_vertex(i), kForbidden);
      previous = value;
    });
    for (const Value output : node.outputs) {
      if (output) add_edge(node_vertex(i), value_vertex(output), price_of_saving(output));
    }
  }

  void add_edges() {
    const size_t num_primals = analysis_.joint().layout.num_primals();
    for (size_t i = 0; i < num_primals; ++i) {
      const Value input = graph_.inputs()[i];
      add_edge(kSource, value_vertex(input), price_of_saving(input));
    }
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      if (relevant_[i]) add_node_edges(i);
    }
    for (const Value value : required_) add_edge(value_vertex(value), kSink, kForbidden);
  }

  // The smallest sink side of all minimum cuts: what still reaches the sink through residual edges.
  std::vector<bool> reaches_sink() const {
    std::vector<bool> reaches(boost::num_vertices(network_));
    std::vector<size_t> open{kSink};
    reaches[kSink] = true;
    while (!open.empty()) {
      const size_t vertex = open.back();
      open.pop_back();
      const auto [begin, end] = boost::out_edges(vertex, network_);
      for (auto edge = begin; edge != end; ++edge) {
        const size_t other = boost::target(*edge, network_);
        if (reaches[other] || network_[network_[*edge].reverse].residual <= 0) continue;
        reaches[other] = true;
        open.push_back(other);
      }
    }
    return reaches;
  }

  const JointAnalysis& analysis_;
  const Graph& graph_;
  const FlowCosts& costs_;
  std::vector<Value> required_;
  std::vector<bool> relevant_;
  std::vector<bool> eager_saves_;
  Network network_;
};

// Replaces a saved base that the backward reads only through one view with as many elements by that view, which spares
// the backward a call.
std::vector<Value> move_through_views(const JointAnalysis& analysis, std::vector<Value> saved,
                                      const std::vector<bool>& runs_in_backward, Wanted wanted) {
  const Graph& graph = analysis.graph();
  std::vector<int32_t> only_reader(graph.num_values(), -1);  // -1: none yet, -2: several
  for (const Value value : wanted_values(analysis, wanted)) only_reader[value.id] = -2;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    if (!runs_in_backward[i]) continue;
    for_each_operand_value(graph.nodes()[i], [&](Value value) {
      auto& reader = only_reader[value.id];
      reader = reader == -1 ? static_cast<int32_t>(i) : -2;
    });
  }
  for (Value& value : saved) {
    while (only_reader[value.id] >= 0) {
      const Node& reader = graph.nodes()[only_reader[value.id]];
      if (!has_tag(reader.op, Tag::kSharesStorage) || reader.outputs.size() != 1) break;
      if (analysis.is_primal(value) || graph.meta(reader.outputs[0]).numel() != graph.meta(value).numel()) break;
      value = reader.outputs[0];
    }
  }
  return sorted_unique(std::move(saved));
}

}  // namespace

FlowChoice cut_joint(const JointAnalysis& analysis, const FlowCosts& costs) {
  return CutBuilder(analysis, costs).solve();
}

std::vector<Value> saved_for(const JointAnalysis& analysis, const std::vector<bool>& recomputed, Wanted whose) {
  const Graph& graph = analysis.graph();
  std::vector<bool> runs(graph.nodes().size());
  std::vector<bool> wanted(graph.num_values());
  std::vector<Value> saved;
  for (const Value value : wanted_values(analysis, whose)) wanted[value.id] = true;
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    bool is_wanted = false;
    for (const Value output : graph.nodes()[i].outputs) is_wanted = is_wanted || (output && wanted[output.id]);
    if (!is_wanted) continue;
    runs[i] = recomputed[i];
    for (const Value output : graph.nodes()[i].outputs) {
      if (output && wanted[output.id] && !recomputed[i]) saved.push_back(output);
    }
    if (runs[i]) for_each_operand_value(graph.nodes()[i], [&](Value value) { wanted[value.id] = true; });
  }
  for (const Value input : graph.inputs()) {
    if (wanted[input.id]) saved.push_back(input);
  }
  return move_through_views(analysis, sorted_unique(std::move(saved)), runs, whose);
}

}  // namespace diptych::detail
