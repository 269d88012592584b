#include "diptych/compile/release_rules.h"

#include <algorithm>
#include <utility>

#include "diptych/graph/print_order.h"
#include "diptych/ops/tags.h"
#include "diptych/passes/joint_analysis.h"

namespace diptych::detail {
namespace {

using Bits = std::vector<bool>;

bool meet(const Bits& a, const Bits& b) {
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (a[i] && b[i]) return true;
  }
  return false;
}

void unite(Bits& sum, const Bits& other) {
  if (sum.size() < other.size()) sum.resize(other.size());
  for (size_t i = 0; i < other.size(); ++i) {
    if (other[i]) sum[i] = true;
  }
}

void take_away(Bits& from, const Bits& other) {
  for (size_t i = 0; i < from.size() && i < other.size(); ++i) {
    if (other[i]) from[i] = false;
  }
}

bool has(const Bits& bits, size_t i) { return i < bits.size() && bits[i]; }

bool comes_through(const BackwardRun& run, const SavingNode& node) {
  return meet(run.tangents, node.tangents) && (run.gradients.empty() || meet(run.gradients, node.gradients));
}

/// Finds which residuals the nodes of a backward read, by the tangents that they depend on and the gradients that
/// depend on them.
class ResidualReads {
 public:
  ResidualReads(const Joint& joint, const std::vector<Value>& saved, const std::vector<size_t>& primals)
      : analysis_(joint),
        graph_(joint.graph),
        layout_(joint.layout),
        saved_(graph_.num_values(), -1),
        primals_(graph_.num_values(), -1) {
    for (size_t i = 0; i < saved.size(); ++i) saved_[saved[i].id] = static_cast<int64_t>(i);
    num_residuals_ = saved.size();
    for (size_t i = 0; i < primals.size(); ++i) {
      primals_[graph_.inputs()[primals[i]].id] = static_cast<int64_t>(num_residuals_ + i);
    }
    num_reads_ = num_residuals_ + primals.size();
    find_tangents();
    find_gradients();
  }

  std::map<std::pair<Bits, Bits>, Bits> run() {
    std::map<std::pair<Bits, Bits>, Bits> reads;
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (analysis_.place(i) != detail::JointPlace::kBackward) continue;
      Bits gradients = gradients_of(node);
      if (gradients.empty() && has_effect(node)) gradients.assign(layout_.num_gradients(), true);
      if (gradients.empty()) continue;
      std::vector<Value> read;
      for_each_operand_value(node, [&](Value value) { read.push_back(value); });
      unite(reads[{tangents_of(node), std::move(gradients)}], reads_behind(read));
    }
    for (size_t i = 0; i < layout_.num_gradients(); ++i) {
      const Value gradient = graph_.outputs()[layout_.num_forward_outputs() + i];
      if (!gradient || analysis_.is_late(gradient)) continue;
      Bits alone(layout_.num_gradients());
      alone[i] = true;
      unite(reads[{Bits(layout_.num_tangents, true), alone}], reads_behind({gradient}));
    }
    return reads;
  }

 private:
  void find_tangents() {
    tangents_.resize(graph_.num_values());
    from_tangent_.resize(graph_.num_values());
    for (size_t i = 0; i < layout_.num_tangents; ++i) {
      Bits alone(layout_.num_tangents);
      alone[i] = true;
      from_tangent_[graph_.inputs()[layout_.num_primals() + i].id] = true;
      tangents_[graph_.inputs()[layout_.num_primals() + i].id] = std::move(alone);
    }
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (analysis_.place(i) != detail::JointPlace::kBackward) continue;
      Bits sum;
      for_each_operand_value(node, [&](Value value) { unite(sum, tangents_[value.id]); });
      if (sum.empty() && has_effect(node)) sum.assign(layout_.num_tangents, true);  // it runs in every backward
      for (const Value output : node.outputs) {
        if (!output) continue;
        from_tangent_[output.id] = !sum.empty();
        tangents_[output.id] = sum;
      }
    }
    // A value that depends on no tangent, such as a derivative at the saved point, belongs to the tangents of its
    // readers.
    for (size_t i = graph_.nodes().size(); i-- > 0;) {
      const Node& node = graph_.nodes()[i];
      if (analysis_.place(i) != detail::JointPlace::kBackward) continue;
      const Bits tangents = tangents_of(node);
      for_each_operand_value(node, [&](Value value) {
        const Node* producer = graph_.producer(value);
        if (producer != nullptr && analysis_.is_late(value) && !depends_on_tangent(*producer)) {
          unite(tangents_[value.id], tangents);
        }
      });
    }
  }

  // Whether any operand depends on a tangent.
  bool depends_on_tangent(const Node& node) const {
    bool depends = false;
    for_each_operand_value(node, [&](Value value) { depends = depends || from_tangent_[value.id]; });
    return depends;
  }

  void find_gradients() {
    gradients_.resize(graph_.num_values());
    for (size_t i = 0; i < layout_.num_gradients(); ++i) {
      const Value gradient = graph_.outputs()[layout_.num_forward_outputs() + i];
      if (!gradient) continue;
      Bits& of_value = gradients_[gradient.id];
      of_value.resize(layout_.num_gradients());
      of_value[i] = true;
    }
    for (size_t i = graph_.nodes().size(); i-- > 0;) {
      if (analysis_.place(i) != detail::JointPlace::kBackward) continue;
      const Node& node = graph_.nodes()[i];
      const Bits gradients = gradients_of(node);
      for_each_operand_value(node, [&](Value value) { unite(gradients_[value.id], gradients); });
    }
  }

  Bits gradients_of(const Node& node) const {
    Bits sum;
    for (const Value output : node.outputs) {
      if (output) unite(sum, gradients_[output.id]);
    }
    return sum;
  }

  Bits tangents_of(const Node& node) const {
    Bits sum;
    for (const Value output : node.outputs) {
      if (output) unite(sum, tangents_[output.id]);
    }
    return sum;
  }

  // Marks the residuals or primals, numbered in `ends`, that the values in `open` are or are computed from.
  void mark_behind(std::vector<Value> open, const std::vector<int64_t>& ends, Bits& found) const {
    Bits seen(graph_.num_values());
    while (!open.empty()) {
      const Value value = open.back();
      open.pop_back();
      if (!value || seen[value.id] || analysis_.is_late(value)) continue;
      seen[value.id] = true;
      if (ends[value.id] >= 0) {
        found[static_cast<size_t>(ends[value.id])] = true;
      } else if (const Node* node = graph_.producer(value)) {
        for_each_operand_value(*node, [&](Value operand) { open.push_back(operand); });
      }
    }
  }

  Bits reads_behind(const std::vector<Value>& values) const {
    Bits found(num_reads_);
    mark_behind(values, saved_, found);
    if (num_reads_ > num_residuals_) mark_behind(values, primals_, found);
    return found;
  }

  detail::JointAnalysis analysis_;
  const Graph& graph_;
  const JointLayout& layout_;
  std::vector<int64_t> saved_;    ///< per value, its residual
  std::vector<int64_t> primals_;  ///< per value, its place behind the residuals
  size_t num_residuals_ = 0;
  size_t num_reads_ = 0;
  std::vector<Bits> tangents_;   ///< per value of the backward, those that it belongs to
  Bits from_tangent_;            ///< per value, whether it depends on a tangent
  std::vector<Bits> gradients_;  ///< per value, those that depend on it
};

}  // namespace

ReleaseRules::ReleaseRules(std::vector<SavingNode> nodes, const Joint& joint, const std::vector<Value>& saved,
                           const std::vector<size_t>& primals)
    : nodes_(std::move(nodes)),
      num_tangents_(joint.layout.num_tangents),
      num_gradients_(joint.layout.num_gradients()),
      num_residuals_(saved.size()),
      num_primals_(primals.size()) {
  for (auto& [reach, reads] : ResidualReads(joint, saved, primals).run()) {
    parts_.push_back({reach.first, reach.second, std::move(reads)});
  }
}

bool ReleaseRules::is_refused(const BackwardRun& run, const std::vector<BackwardRun>& released) const {
  return std::any_of(nodes_.begin(), nodes_.end(), [&](const SavingNode& node) {
    return comes_through(run, node) && std::any_of(released.begin(), released.end(),
                                                   [&](const auto& before) { return comes_through(before, node); });
  });
}

ReleaseRules::Kept ReleaseRules::kept(const std::vector<BackwardRun>& released) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto [found, is_new] = kept_.try_emplace(released);
  if (!is_new) return found->second;
  std::vector<const SavingNode*> freed;
  for (const SavingNode& node : nodes_) {
    if (std::any_of(released.begin(), released.end(), [&](const auto& run) { return comes_through(run, node); })) {
      freed.push_back(&node);
    }
  }
  Bits reads(num_residuals_ + num_primals_);
  for (size_t tangent = 0; tangent < num_tangents_; ++tangent) {
    Bits may_run(num_gradients_, true);  // the gradients to which a backward of this tangent alone may still run
    for (const SavingNode* node : freed) {
      if (has(node->tangents, tangent)) take_away(may_run, node->gradients);
    }
    for (const Part& part : parts_) {
      if (has(part.tangents, tangent) && meet(part.gradients, may_run)) unite(reads, part.reads);
    }
  }
  const auto first_primal = reads.begin() + static_cast<std::ptrdiff_t>(num_residuals_);
  found->second = {Bits(reads.begin(), first_primal), Bits(first_primal, reads.end())};
  return found->second;
}

}  // namespace diptych::detail
