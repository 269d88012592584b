#include "diptych/native/fusion/fuse.h"

#include <algorithm>
#include <memory>
#include <queue>
#include <set>
#include <string>

#include "diptych/base/check.h"
#include "diptych/graph/rewrite.h"
#include "diptych/graph/subgraphs.h"
#include "diptych/native/fusion/fused_node.h"
#include "diptych/native/fusion/grouping.h"
#include "diptych/ops/tags.h"
#include "diptych/passes/storage_roots.h"

namespace diptych::detail {
namespace {

using BodyCheck = std::function<bool(const Graph&)>;

// Whether an update of memory ends what may be reordered.
bool is_barrier(const Node& node) {
  if (!node.op.is_hop()) return has_tag(node.op, Tag::kMutating);
  return node.outputs.empty() || any_subgraph(node, has_mutation);
}

// "mul_tanh": what a kernel is found by in a profile.
std::string name_of(const Graph& graph, const std::vector<size_t>& nodes) {
  constexpr size_t kMostLetters = 60;
  std::string name = "fused";
  std::set<std::string> seen;
  for (const size_t node : nodes) {
    const std::string full = graph.nodes()[node].op.name();
    const size_t begin = full.find('.') + 1;
    const std::string word = full.substr(begin, full.find('.', begin) - begin);
    if (name.size() + word.size() < kMostLetters && seen.insert(word).second) name += "_" + word;
  }
  return name;
}

// A group of nodes with what it takes and gives.
struct Group {
  std::vector<size_t> nodes;
  ValueList inputs, outputs;
  size_t number = 0;  // in the record
};

class Fusion {
 public:
  Fusion(const Graph& graph, const BodyCheck& is_kernel, FusionRecord* record)
      : graph_(graph),
        facts_(graph),
        is_kernel_(is_kernel),
        record_(record),
        group_of_(graph.nodes().size(), -1),
        rewriter_(graph) {}

  Graph run() {
    std::vector<size_t> ends;
    for (size_t begin = 0; begin < graph_.nodes().size(); begin = ends.back()) {
      ends.push_back(window_end(begin));
      find_window_groups(begin, ends.back());
    }
    find_emitted();
    rewriter_.copy_inputs();
    size_t begin = 0;
    for (const size_t end : ends) {
      emit(begin, end);
      begin = end;
    }
    if (record_ != nullptr) record_gaps();
    return rewriter_.finish();
  }

 private:
  static constexpr size_t kWindow = 4096;  // the time to find groups grows with the square of it

  size_t window_end(size_t begin) const {
    const auto& nodes = graph_.nodes();
    if (is_barrier(nodes[begin])) return begin + 1;
    size_t end = begin + 1;
    while (end < nodes.size() && end - begin < kWindow && !is_barrier(nodes[end])) ++end;
    return end;
  }

  void find_window_groups(size_t begin, size_t end) {
    const IsKernel is_kernel = [&](const std::vector<size_t>& nodes) {
      return is_kernel_ == nullptr || is_kernel_(body_of(group_of_nodes(nodes)));
    };
    for (const auto& nodes : find_groups(facts_, begin, end, is_kernel, record_ ? &gaps_ : nullptr)) {
      Group group = group_of_nodes(nodes);
      if (group.outputs.empty()) continue;
      for (const size_t node : nodes) group_of_[node] = static_cast<int32_t>(groups_.size());
      groups_.push_back(std::move(group));
    }
  }

  Group group_of_nodes(const std::vector<size_t>& nodes) const {
    Group group{nodes, {}, {}};
    const auto is_inside = [&](int32_t node) {
      return node >= 0 && std::binary_search(nodes.begin(), nodes.end(), static_cast<size_t>(node));
    };
    std::set<Value> seen;
    for (const size_t index : nodes) {
      const Node& node = graph_.nodes()[index];
      for_each_operand_value(node, [&](Value value) {
        const Value source = facts_.source(value);
        if (facts_.is_number(source) || is_inside(facts_.maker(facts_.root(value)))) return;
        if (seen.insert(source).second) group.inputs.push_back(source);
      });
      for (const Value output : node.outputs) {
        const auto& readers = facts_.readers(output);
        const bool is_needed = facts_.is_output(output) ||
                               std::any_of(readers.begin(), readers.end(),
                                           [&](size_t node) { return !is_inside(static_cast<int32_t>(node)); });
        if (is_needed) group.outputs.push_back(output);
      }
    }
    return group;
  }

  Graph body_of(const Group& group) const {
    Rewriter rewriter(graph_, Graph(name_of(graph_, group.nodes)));
    for (const Value input : group.inputs) {
      rewriter.add_input(input, {SlotKind::kArgument, fmt::format("input{}", rewriter.graph().inputs().size())});
    }
    std::vector<size_t> all = group.nodes;
    for (const size_t view : inner_views(facts_, group.nodes)) all.push_back(view);
    std::sort(all.begin(), all.end());
    for (const size_t node : all) rewriter.copy_node(graph_.nodes()[node]);
    std::vector<Value> outputs;
    std::vector<Slot> slots;
    for (const Value output : group.outputs) {
      slots.push_back({SlotKind::kOutput, fmt::format("output{}", outputs.size())});
      outputs.push_back(rewriter[output]);
    }
    rewriter.graph().set_outputs(std::move(outputs), std::move(slots));
    return std::move(rewriter.graph());
  }

  // Emits the nodes of a window, a group in the place of its last node or, if it can't wait for that, before the first
  // that reads it.
  void emit(size_t begin, size_t end) {
    std::vector<std::vector<size_t>> waiting(end - begin);  // by unit, those that need it
    std::vector<size_t> missing(end - begin);
    for (size_t node = begin; node < end; ++node) {
      if (unit_of(node) != node || !is_emitted_[node]) continue;
      for (const size_t source : sources_of(node, begin)) {
        waiting[source - begin].push_back(node);
        ++missing[node - begin];
      }
    }
    std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
    size_t left = 0;
    for (size_t node = begin; node < end; ++node) {
      if (unit_of(node) != node || !is_emitted_[node]) continue;
      ++left;
      if (missing[node - begin] == 0) ready.push(node);
    }
    for (; !ready.empty(); --left) {
      const size_t unit = ready.top();
      ready.pop();
      emit_unit(unit);
      for (const size_t next : waiting[unit - begin]) {
        if (--missing[next - begin] == 0) ready.push(next);
      }
    }
    DIPTYCH_ASSERT(left == 0, "{} units of graph '{}' wait for each other", left, graph_.name());
  }

  // A group is known by its last node.
  size_t unit_of(size_t node) const { return group_of_[node] < 0 ? node : groups_[group_of_[node]].nodes.back(); }

  // Finds the nodes of the result that are not in groups: all but the views that only bodies read.
  void find_emitted() {
    std::vector<bool> is_read(graph_.num_values());
    for (const Value output : graph_.outputs()) {
      if (output) is_read[output.id] = true;
    }
    is_emitted_.assign(graph_.nodes().size(), true);
    for (size_t index = graph_.nodes().size(); index-- > 0;) {
      const Node& node = graph_.nodes()[index];
      const auto is_needed = [&](Value value) { return is_read[value.id]; };
      if (facts_.role(index) == NodeRole::kViews) {
        is_emitted_[index] = std::any_of(node.outputs.begin(), node.outputs.end(), is_needed);
      }
      if (!is_emitted_[index]) continue;
      const auto mark = [&](Value value) { is_read[value.id] = true; };
      if (group_of_[index] < 0) {
        for_each_operand_value(node, mark);
      } else {
        std::for_each(groups_[group_of_[index]].inputs.begin(), groups_[group_of_[index]].inputs.end(), mark);
      }
    }
  }

  std::set<size_t> sources_of(size_t unit, size_t begin) {
    std::set<size_t> sources;
    const auto add = [&](Value value) {
      const int32_t maker = facts_.maker(value);
      if (maker >= static_cast<int32_t>(begin)) sources.insert(unit_of(static_cast<size_t>(maker)));
    };
    if (group_of_[unit] >= 0) {
      for (const Value input : groups_[group_of_[unit]].inputs) add(input);
      return sources;
    }
    for_each_operand_value(graph_.nodes()[unit], add);
    if (has_effect(graph_.nodes()[unit])) {
      if (last_effect_ && *last_effect_ >= begin) sources.insert(*last_effect_);
      last_effect_ = unit;
    }
    return sources;
  }

  void emit_unit(size_t unit) {
    if (group_of_[unit] >= 0) return emit_group(groups_[group_of_[unit]]);
    Node node = graph_.nodes()[unit];
    if (!may_fuse_bodies(node)) return rewriter_.copy_node(graph_.nodes()[unit]);
    for (auto& subgraph : node.subgraphs)
      subgraph = std::make_shared<const Graph>(fuse(*subgraph, is_kernel_, record_));
    rewriter_.copy_node(node);
  }

  void emit_group(Group& group) {
    ValueList inputs;
    for (const Value input : group.inputs) inputs.push_back(rewriter_[input]);
    Node node = make_fused_node(std::make_shared<const Graph>(body_of(group)), inputs);
    const Node& last = graph_.nodes()[group.nodes.back()];
    node.provenance = last.provenance;
    node.provenance.origin = InternedString("fuse");
    node.provenance.grad_of = {};
    node.grad_enabled = last.grad_enabled;
    if (record_ != nullptr) {
      group.number = record_->kernels.size();
      record_->kernels.push_back(node.subgraphs[0]->name());
    }
    node.returns.assign(group.outputs.size(), -1);
    std::vector<std::optional<TensorMeta>> metas;
    for (const Value output : group.outputs) metas.emplace_back(graph_.meta(output));
    const size_t index = rewriter_.graph().add_node(std::move(node), std::move(metas));
    for (size_t i = 0; i < group.outputs.size(); ++i) {
      rewriter_.map(group.outputs[i], rewriter_.graph().nodes()[index].outputs[i]);
    }
  }

  std::string unit_name(size_t node) const {
    if (group_of_[node] < 0) return graph_.nodes()[node].op.name();
    const size_t number = groups_[group_of_[node]].number;
    return fmt::format("{} {}", number, record_->kernels[number]);
  }

  // What lies between two operators of LibTorch is nothing that fusion could change.
  void record_gaps() {
    for (const Gap& gap : gaps_) {
      if (group_of_[gap.maker] < 0 && group_of_[gap.reader] < 0) continue;
      record_->gaps.push_back(
          {unit_name(gap.maker), unit_name(gap.reader), type_string(graph_.meta(gap.value)), gap.why});
    }
  }

  const Graph& graph_;
  const FusionFacts facts_;
  const BodyCheck& is_kernel_;
  FusionRecord* const record_;  // null if nobody asks
  std::vector<Gap> gaps_;
  std::vector<int32_t> group_of_;  // by node; -1 for none
  std::vector<Group> groups_;
  std::vector<bool> is_emitted_;  // by node
  std::optional<size_t> last_effect_;
  Rewriter rewriter_;
};

}  // namespace

Graph fuse(const Graph& graph, const std::function<bool(const Graph& body)>& is_kernel, FusionRecord* record) {
  return Fusion(graph, is_kernel, record).run();
}

}  // namespace diptych::detail
