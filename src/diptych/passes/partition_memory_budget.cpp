// Partitions between eager's memory and the least that recomputation allows: a knapsack of recomputed nodes, solved by
// cuts at growing prices of recomputing, with the gaps between these filled node by node.
#include <algorithm>
#include <cmath>

#include "diptych/base/check.h"
#include "diptych/ops/cost.h"
#include "diptych/ops/tags.h"
#include "diptych/passes/partition_flow.h"

namespace diptych {

using namespace detail;
namespace {

// The price of recomputing for one nanosecond, in bytes: powers of two from "recompute everything" to "nearly nothing".
constexpr int kCheapest = -20;
constexpr int kDearest = 12;
constexpr size_t kStepsBetweenCuts = 16;

struct Candidate {
  detail::FlowChoice choice;
  int64_t bytes = 0;  ///< new storage kept for the backward
  int64_t ns = 0;     ///< nominal time of recomputing
};

class Frontier {
 public:
  explicit Frontier(const Joint& joint) : analysis_(joint) {
    for (const Node& node : joint.graph.nodes()) ns_.push_back(nominal_ns(cost(joint.graph, node)));
    auto cheap = cut_at(kCheapest);
    auto dear = cut_at(kDearest);
    add(cheap);
    explore(cheap, kCheapest, dear, kDearest);
    add(dear);
    Candidate eager;
    eager.choice.saved = analysis_.required(/*either_is_late=*/true);
    eager.choice.recomputed.resize(joint.graph.nodes().size());
    eager.bytes = analysis_.new_bytes(eager.choice.saved);
    most_bytes_ = eager.bytes;
    candidates_.push_back(std::move(eager));
    keep_efficient();
  }

  // Chooses the least recomputation within the budget. The efficient candidates are ordered by bytes, so a larger
  // budget never picks one with fewer.
  const std::vector<Value>& choose(double fraction) const {
    const int64_t least = candidates_.front().bytes;
    const auto room = static_cast<int64_t>(std::floor(fraction * static_cast<double>(most_bytes_ - least)));
    size_t best = 0;
    while (best + 1 < candidates_.size() && candidates_[best + 1].bytes <= least + room) ++best;
    return candidates_[best].choice.saved;
  }

 private:
  Candidate evaluate(detail::FlowChoice choice) const {
    Candidate candidate{std::move(choice), 0, 0};
    candidate.bytes = analysis_.new_bytes(candidate.choice.saved);
    for (size_t i = 0; i < ns_.size(); ++i) {
      if (candidate.choice.recomputed[i] && analysis_.place(i) == detail::JointPlace::kForward) candidate.ns += ns_[i];
    }
    return candidate;
  }

  Candidate cut_at(int exponent) const {
    const double price_per_ns = std::ldexp(static_cast<double>(detail::kPricePerByte), exponent);
    const auto recompute = [&](const Node& node) -> std::optional<int64_t> {
      if (has_tag(node.op, Tag::kDataDependent)) return std::nullopt;
      const auto ns = ns_[static_cast<size_t>(&node - analysis_.graph().nodes().data())];
      return 1 + static_cast<int64_t>(price_per_ns * static_cast<double>(ns));
    };
    return evaluate(detail::cut_joint(analysis_, {recompute, detail::PrimalPrice::kNothing}));
  }

  void add(const Candidate& candidate) { candidates_.push_back(candidate); }

  // Makes cuts at prices in between, as long as they differ; neighbouring prices whose cuts differ are joined step by
  // step.
  void explore(const Candidate& cheap, int low, const Candidate& dear, int high) {
    if (cheap.choice.recomputed == dear.choice.recomputed) return;
    if (high - low == 1) return add_steps(cheap, dear);
    const int middle = low + (high - low) / 2;
    const auto between = cut_at(middle);
    add(between);
    explore(cheap, low, between, middle);
    explore(between, middle, dear, high);
  }

  // Adds candidates that leave more and more of the nodes that only the cheap cut recomputes to the forward, from the
  // first one on.
  void add_steps(const Candidate& cheap, const Candidate& dear) {
    std::vector<size_t> differing;
    for (size_t i = 0; i < ns_.size(); ++i) {
      if (cheap.choice.recomputed[i] && !dear.choice.recomputed[i]) differing.push_back(i);
    }
    for (size_t step = 1; step < kStepsBetweenCuts; ++step) {
      detail::FlowChoice choice{{}, cheap.choice.recomputed};
      for (size_t i = 0; i < differing.size() * step / kStepsBetweenCuts; ++i) choice.recomputed[differing[i]] = false;
      choice.saved = detail::saved_for(analysis_, choice.recomputed);
      add(evaluate(std::move(choice)));
    }
  }

  // Keeps the candidates that no other beats in both bytes and time, sorted by bytes. Drops those that need more bytes
  // than eager.
  void keep_efficient() {
    std::stable_sort(candidates_.begin(), candidates_.end(), [](const Candidate& left, const Candidate& right) {
      return std::pair(left.bytes, left.ns) < std::pair(right.bytes, right.ns);
    });
    std::vector<Candidate> kept;
    for (auto& candidate : candidates_) {
      if (candidate.bytes > most_bytes_) break;
      if (kept.empty() || candidate.ns < kept.back().ns) kept.push_back(std::move(candidate));
    }
    candidates_ = std::move(kept);
  }

  detail::JointAnalysis analysis_;
  std::vector<int64_t> ns_;
  std::vector<Candidate> candidates_;
  int64_t most_bytes_ = 0;
};

}  // namespace

Partitioner memory_budget(double fraction) {
  DIPTYCH_CHECK(fraction >= 0 && fraction <= 1,
                "[memory_budget] got the fraction {}, expected one between 0 (recompute all that may be) and 1 (save "
                "what eager saves)",
                fraction);
  const auto choose = [fraction](const Joint& joint) {
    if (fraction == 1) return default_partition().choose(joint);
    return Frontier(joint).choose(fraction);
  };
  return {fmt::format("memory_budget({})", fraction), choose};
}

}  // namespace diptych
