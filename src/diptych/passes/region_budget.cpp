#include "diptych/passes/region_budget.h"

#include <algorithm>
#include <cmath>

#include "diptych/ops/cost.h"
#include "diptych/ops/tags.h"
#include "diptych/passes/partition_flow.h"

namespace diptych::detail {
namespace {

// The price of recomputing for one nanosecond, in bytes, as powers of two from "recompute everything" to "nearly
// nothing"; between neighbouring cuts, nodes are moved over in kStepsBetweenBudgets steps.
constexpr int kLowestExponent = -20;
constexpr int kHighestExponent = 12;
constexpr int kStepOfPrice = 4;
constexpr size_t kStepsBetweenBudgets = 8;

Rematerialize decision(bool recomputes) { return recomputes ? Rematerialize::kRecompute : Rematerialize::kSave; }

/// Which members are recomputed, and what that costs.
struct BudgetCandidate {
  std::vector<bool> recomputes;
  int64_t bytes = 0;  ///< that the split keeps for the backward in total
  int64_t kept = 0;   ///< of those, the region's own
  int64_t ns = 0;     ///< nominal time of recomputing
};

class Budget {
 public:
  Budget(const Joint& joint, InternedString path, const std::vector<size_t>& members)
      : members_(members), depth_(region_depth(path)), bare_(joint) {
    for (size_t i = 0; i < bare_.graph.nodes().size(); ++i) {
      Provenance from = bare_.graph.nodes()[i].provenance;
      from.marks = {};
      bare_.graph.set_provenance(i, from);
    }
    is_member_.resize(bare_.graph.nodes().size());
    for (const size_t i : members) is_member_[i] = true;
    for (const Node& node : bare_.graph.nodes()) ns_.push_back(nominal_ns(cost(bare_.graph, node)));
    scratch_ = bare_;
    find_candidates();
  }

  // Chooses the least recomputation that fits. The candidates are ordered by the bytes of the whole split, so a larger
  // budget never picks one with fewer; if none fits, it takes the first, which keeps the fewest.
  const std::vector<bool>& choose(double fraction) const {
    const auto room = static_cast<int64_t>(std::floor(fraction * static_cast<double>(allowed_)));
    size_t best = 0;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      if (candidates_[i].kept <= room) best = i;
    }
    return candidates_[best].recomputes;
  }

 private:
  // A view costs nothing to run and has no storage of its own to keep.
  bool is_view(size_t node) const { return has_tag(bare_.graph.nodes()[node].op, Tag::kSharesStorage); }

  // Returns what the candidate costs in the default partition.
  BudgetCandidate evaluate(std::vector<bool> recomputes) {
    BudgetCandidate candidate{std::move(recomputes)};
    for (size_t i = 0; i < members_.size(); ++i) {
      Provenance from = scratch_.graph.nodes()[members_[i]].provenance;
      from.marks.set(depth_ - 1, decision(candidate.recomputes[i]));
      scratch_.graph.set_provenance(members_[i], from);
      if (candidate.recomputes[i]) candidate.ns += ns_[members_[i]];
    }
    const JointAnalysis analysis(scratch_);
    const auto saved = analysis.required(/*either_is_late=*/true);
    std::vector<Value> own;
    for (const Value value : saved) {
      const auto maker = scratch_.graph.info(analysis.root(value)).node;
      if (maker >= 0 && is_member_[maker]) own.push_back(value);
    }
    candidate.bytes = analysis.new_bytes(saved);
    candidate.kept = analysis.new_bytes(own);
    return candidate;
  }

  std::vector<bool> cut_at(const JointAnalysis& analysis, int exponent) const {
    const double price_per_ns = std::ldexp(static_cast<double>(kPricePerByte), exponent);
    const auto recompute = [&](const Node& node) -> std::optional<int64_t> {
      const auto index = static_cast<size_t>(&node - analysis.graph().nodes().data());
      if (!is_member_[index] || has_tag(node.op, Tag::kDataDependent)) return std::nullopt;
      return 1 + static_cast<int64_t>(price_per_ns * static_cast<double>(ns_[index]));
    };
    const auto cut = cut_joint(analysis, {recompute, PrimalPrice::kNothing});
    std::vector<bool> recomputes;
    for (const size_t i : members_) recomputes.push_back(cut.recomputed[i] || is_view(i));
    return recomputes;
  }

  void find_candidates() {
    const JointAnalysis analysis(bare_);
    std::vector<bool> previous(members_.size(), true);
    std::vector<bool> only_views;
    for (const size_t i : members_) only_views.push_back(is_view(i));
    candidates_.push_back(evaluate(previous));
    candidates_.push_back(evaluate(only_views));
    allowed_ = candidates_.back().kept;
    for (int exponent = kLowestExponent; exponent <= kHighestExponent; exponent += kStepOfPrice) {
      auto cut = cut_at(analysis, exponent);
      if (cut == previous) continue;
      add_steps(previous, cut);
      candidates_.push_back(evaluate(cut));
      previous = std::move(cut);
    }
    add_steps(previous, only_views);
    keep_efficient();
  }

  // Adds candidates that leave more and more of the nodes that only the cheaper cut recomputes to the forward, from the
  // first one on.
  void add_steps(const std::vector<bool>& cheap, const std::vector<bool>& dear) {
    std::vector<size_t> differing;
    for (size_t i = 0; i < members_.size(); ++i) {
      if (cheap[i] && !dear[i]) differing.push_back(i);
    }
    for (size_t step = 1; step < std::min(kStepsBetweenBudgets, differing.size()); ++step) {
      auto recomputes = cheap;
      for (size_t i = 0; i < differing.size() * step / kStepsBetweenBudgets; ++i) recomputes[differing[i]] = false;
      candidates_.push_back(evaluate(std::move(recomputes)));
    }
  }

  // Keeps the candidates that no other beats in both bytes and time, sorted by bytes.
  void keep_efficient() {
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const BudgetCandidate& left, const BudgetCandidate& right) {
                       return std::pair(left.bytes, left.ns) < std::pair(right.bytes, right.ns);
                     });
    std::vector<BudgetCandidate> kept;
    for (auto& candidate : candidates_) {
      if (kept.empty() || candidate.ns < kept.back().ns) kept.push_back(std::move(candidate));
    }
    candidates_ = std::move(kept);
  }

  const std::vector<size_t>& members_;
  size_t depth_;
  Joint bare_;     // without any marks
  Joint scratch_;  // the same with the marks of the current candidate
  std::vector<bool> is_member_;
  std::vector<int64_t> ns_;
  int64_t allowed_ = 0;
  std::vector<BudgetCandidate> candidates_;
};

}  // namespace

std::vector<Rematerialize> keep_within_budget(const Joint& joint, InternedString path,
                                              const std::vector<size_t>& members, double fraction) {
  if (fraction == 1) return std::vector<Rematerialize>(members.size(), Rematerialize::kAuto);
  const Budget budget(joint, path, members);
  std::vector<Rematerialize> decisions;
  for (const bool recomputes : budget.choose(fraction)) decisions.push_back(decision(recomputes));
  return decisions;
}

}  // namespace diptych::detail
