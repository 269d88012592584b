#include "diptych/native/fusion/grouping.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "diptych/native/fusion/cost_model.h"
#include "diptych/native/fusion/group_rules.h"
#include "diptych/native/fusion/reachability.h"
#include "diptych/native/lower/group_space.h"
#include "diptych/ops/tags.h"

namespace diptych::detail {
namespace {

// How many of the nodes that read a value later are looked at: of thousands, each finds its neighbours.
constexpr size_t kNextReaders = 4;

bool contains(const std::vector<size_t>& sorted, size_t node) {
  return std::binary_search(sorted.begin(), sorted.end(), node);
}

std::vector<size_t> united(const std::vector<size_t>& a, const std::vector<size_t>& b) {
  std::vector<size_t> all;
  all.reserve(a.size() + b.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
  return all;
}

// Nodes that are merged, and what they read and make, with the bytes of each.
struct Candidate {
  std::vector<size_t> nodes;
  std::map<Value, int64_t> reads;  // of others
  std::map<Value, int64_t> makes;
  std::optional<GroupSpace> space;  // made when it is first asked for
};

class Grouping {
 public:
  Grouping(const FusionFacts& facts, size_t begin, size_t end, const IsKernel& is_kernel, std::set<size_t> doubtful)
      : facts_(facts),
        graph_(facts.graph()),
        begin_(begin),
        end_(end),
        is_kernel_(is_kernel),
        doubtful_(std::move(doubtful)),
        units_(dependencies()) {
    for (size_t node = begin; node < end; ++node) candidates_.push_back(candidate_of(node));
  }

  std::vector<std::vector<size_t>> run() {
    for (size_t node = begin_; node < end_; ++node) {
      if (facts_.role(node) == NodeRole::kComputes) merge_with_makers(node);
    }
    for (size_t node = begin_; node < end_; ++node) {
      if (facts_.role(node) == NodeRole::kComputes) merge_with_readers(node);
    }
    std::vector<std::vector<size_t>> groups;
    for (size_t unit = 0; unit < candidates_.size(); ++unit) {
      if (units_.find(unit) == unit && is_worthwhile(candidates_[unit])) groups.push_back(candidates_[unit].nodes);
    }
    return groups;
  }

  // Adds, for each two units of which one reads what the other makes, why they are two.
  void list_gaps(std::vector<Gap>& gaps) const {
    std::set<std::pair<size_t, size_t>> seen;
    for (size_t reader = begin_; reader < end_; ++reader) {
      if (facts_.role(reader) == NodeRole::kViews) continue;
      for_each_operand_value(graph_.nodes()[reader], [&](Value value) {
        const int32_t maker = facts_.maker(facts_.root(value));
        if (maker < 0) return;
        const auto from = static_cast<size_t>(maker);
        const size_t unit = from < begin_ ? from : end_ + units_.find(from - begin_);
        if (unit == end_ + units_.find(reader - begin_) || !seen.emplace(unit, units_.find(reader - begin_)).second)
          return;
        gaps.push_back({from, reader, value, why_apart(from, reader)});
      });
    }
  }

 private:
  std::string why_apart(size_t maker, size_t reader) const {
    for (const size_t node : {maker, reader}) {
      if (facts_.role(node) == NodeRole::kComputes) continue;
      return fmt::format("{}: {}", graph_.nodes()[node].op.name(), why_no_kernel(graph_, graph_.nodes()[node]));
    }
    if (maker < begin_) return "memory is written in between, or the graph is longer than what is looked at together";
    Candidate both;
    const auto problem = find_problem(units_.find(maker - begin_), units_.find(reader - begin_), both);
    return problem.value_or("other kernels were merged first");
  }

  // Effects keep their order, so each depends on the one before.
  std::vector<std::vector<size_t>> dependencies() const {
    std::vector<std::vector<size_t>> sources(end_ - begin_);
    std::optional<size_t> last_effect;
    for (size_t node = begin_; node < end_; ++node) {
      auto& from = sources[node - begin_];
      for_each_operand_value(graph_.nodes()[node], [&](Value value) {
        const int32_t maker = facts_.maker(facts_.root(value));
        if (maker >= static_cast<int32_t>(begin_)) from.push_back(static_cast<size_t>(maker) - begin_);
      });
      if (has_effect(graph_.nodes()[node])) {
        if (last_effect) from.push_back(*last_effect);
        last_effect = node - begin_;
      }
      std::sort(from.begin(), from.end());
      from.erase(std::unique(from.begin(), from.end()), from.end());
    }
    return sources;
  }

  Candidate candidate_of(size_t index) const {
    Candidate candidate;
    if (facts_.role(index) != NodeRole::kComputes) return candidate;
    const Node& node = graph_.nodes()[index];
    candidate.nodes = {index};
    for_each_operand_value(node, [&](Value value) {
      const Value source = facts_.source(value);
      if (facts_.is_number(source)) return;
      auto& bytes = candidate.reads[source];
      bytes = std::max(bytes, bytes_read(graph_, node, value));
    });
    for (const Value output : node.outputs) candidate.makes[output] = bytes_moved(graph_.meta(output));
    return candidate;
  }

  bool is_worthwhile(const Candidate& candidate) const {
    if (candidate.nodes.size() != 1) return candidate.nodes.size() > 1;
    return doubtful_.count(candidate.nodes[0]) == 0 && is_worth_a_kernel(graph_, graph_.nodes()[candidate.nodes[0]]);
  }

  // The unit of a node that may be merged with others; none for one that may not.
  std::optional<size_t> unit_of(int32_t node) const {
    if (node < static_cast<int32_t>(begin_) || node >= static_cast<int32_t>(end_)) return std::nullopt;
    if (facts_.role(node) != NodeRole::kComputes) return std::nullopt;
    return units_.find(static_cast<size_t>(node) - begin_);
  }

  void merge_with_makers(size_t node) {
    std::vector<std::pair<int64_t, size_t>> makers;
    for_each_operand_value(graph_.nodes()[node], [&](Value value) {
      if (const auto unit = unit_of(facts_.maker(facts_.root(value)))) makers.emplace_back(0, *unit);
    });
    merge_best_first(node, std::move(makers));
  }

  void merge_with_readers(size_t node) {
    std::vector<std::pair<int64_t, size_t>> others;
    for_each_operand_value(graph_.nodes()[node], [&](Value value) {
      if (facts_.is_number(value)) return;
      const auto& readers = facts_.readers(facts_.root(value));
      auto next = std::upper_bound(readers.begin(), readers.end(), node);
      for (size_t i = 0; i < kNextReaders && next != readers.end(); ++i, ++next) {
        if (const auto unit = unit_of(static_cast<int32_t>(*next))) others.emplace_back(0, *unit);
      }
    });
    merge_best_first(node, std::move(others));
  }

  // Tries the units in the order of what merging each with the node saves, the nearest first among equals.
  void merge_best_first(size_t node, std::vector<std::pair<int64_t, size_t>> others) {
    std::sort(others.begin(), others.end());
    others.erase(std::unique(others.begin(), others.end()), others.end());
    const size_t own = units_.find(node - begin_);
    for (auto& [saved, unit] : others) saved = unit == own ? 0 : saved_bytes(own, unit);
    std::sort(others.begin(), others.end(), std::greater<>());
    for (const auto& [saved, unit] : others) {
      if (saved > 0) try_merge(units_.find(node - begin_), units_.find(unit));
    }
  }

  bool is_read_outside(Value value, size_t a, size_t b) const {
    if (facts_.is_output(value)) return true;
    const auto& readers = facts_.readers(value);
    return std::any_of(readers.begin(), readers.end(), [&](size_t reader) {
      const auto unit = unit_of(static_cast<int32_t>(reader));
      return !unit || (*unit != a && *unit != b);
    });
  }

  // The bytes that two units no longer move if they are one.
  int64_t saved_bytes(size_t a, size_t b) const {
    int64_t saved = 0;
    for (const auto& [value, bytes] : candidates_[b].reads) {
      const auto shared = candidates_[a].reads.find(value);
      if (shared != candidates_[a].reads.end()) saved += std::min(bytes, shared->second);
    }
    return saved + saved_between(a, b) + saved_between(b, a);
  }

  // The bytes of values that `reader` no longer loads, and `maker` no longer stores.
  int64_t saved_between(size_t maker, size_t reader) const {
    int64_t saved = 0;
    std::set<Value> seen;
    for (const auto& [value, bytes] : candidates_[reader].reads) {
      const auto made = candidates_[maker].makes.find(facts_.root(value));
      if (made == candidates_[maker].makes.end()) continue;
      saved += bytes;
      if (seen.insert(made->first).second && !is_read_outside(made->first, maker, reader)) saved += made->second;
    }
    return saved;
  }

  void try_merge(size_t a, size_t b) {
    if (a == b) return;
    Candidate both;
    if (find_problem(a, b, both)) return;
    const size_t merged = units_.merge(a, b);
    candidates_[a] = candidates_[b] = {};
    candidates_[merged] = std::move(both);
  }

  // Why two units are better two; if they are not, `both` becomes what they are together.
  std::optional<std::string> find_problem(size_t a, size_t b, Candidate& both) const {
    if (saved_bytes(a, b) == 0) return "nothing would be saved";
    const Candidate &one = candidates_[a], &other = candidates_[b];
    if (one.nodes.size() + other.nodes.size() > kMostNodes) return "too many nodes for one kernel";
    if (!are_alike(one, other)) return "only one records gradients";
    if (units_.would_be_cyclic(a, b)) return "what lies between them is in another kernel, or in none";
    both = combined(one, other);
    if (num_buffers(both, a, b) > kMostBuffers) return "too many inputs and outputs for one kernel";
    size_t misfit = 0;
    both.space = space_of(one, other, both.nodes, misfit);
    if (!both.space) return fmt::format("{} runs along other dims", graph_.nodes()[misfit].op.name());
    const auto is_needed = [&](Value value) { return facts_.root(value) == value && is_read_outside(value, a, b); };
    if (auto problem = find_group_problem(facts_, *both.space, is_needed)) return problem;
    if (has_doubtful(both) && !is_kernel_(both.nodes)) return "no code can be made of both together";
    return std::nullopt;
  }

  bool has_doubtful(const Candidate& candidate) const {
    return !doubtful_.empty() && std::any_of(candidate.nodes.begin(), candidate.nodes.end(),
                                             [&](size_t node) { return doubtful_.count(node) != 0; });
  }

  bool are_alike(const Candidate& a, const Candidate& b) const {
    return graph_.nodes()[a.nodes[0]].grad_enabled == graph_.nodes()[b.nodes[0]].grad_enabled;
  }

  Candidate combined(const Candidate& a, const Candidate& b) const {
    Candidate both;
    both.nodes = united(a.nodes, b.nodes);
    both.makes = a.makes;
    both.makes.insert(b.makes.begin(), b.makes.end());
    for (const auto* reads : {&a.reads, &b.reads}) {
      for (const auto& [value, bytes] : *reads) {
        if (both.makes.count(facts_.root(value)) != 0) continue;
        auto& most = both.reads[value];
        most = std::max(most, bytes);
      }
    }
    return both;
  }

  size_t num_buffers(const Candidate& both, size_t a, size_t b) const {
    const auto outputs = std::count_if(both.makes.begin(), both.makes.end(),
                                       [&](const auto& made) { return is_read_outside(made.first, a, b); });
    return both.reads.size() + static_cast<size_t>(outputs);
  }

  // The space of all nodes; if there is none, `misfit` becomes the first node that does not fit. A group that only
  // gains later nodes keeps what it has.
  std::optional<GroupSpace> space_of(const Candidate& a, const Candidate& b, const std::vector<size_t>& nodes,
                                     size_t& misfit) const {
    const auto views = inner_views(facts_, nodes);
    const std::vector<size_t> all = united(nodes, views);
    const Candidate& first = a.nodes.front() < b.nodes.front() ? a : b;
    const bool can_grow = first.space && first.space->nodes().size() < all.size() &&
                          std::equal(first.space->nodes().begin(), first.space->nodes().end(), all.begin());
    GroupSpace space = can_grow ? *first.space : GroupSpace(graph_);
    for (size_t i = can_grow ? first.space->nodes().size() : 0; i < all.size(); ++i) {
      misfit = all[i];
      if (!space.add(misfit)) return std::nullopt;
    }
    return space;
  }

  const FusionFacts& facts_;
  const Graph& graph_;
  size_t begin_, end_;
  const IsKernel& is_kernel_;
  std::set<size_t> doubtful_;
  Reachability units_;
  std::vector<Candidate> candidates_;  // by unit
};

}  // namespace

std::vector<size_t> inner_views(const FusionFacts& facts, const std::vector<size_t>& nodes) {
  const Graph& graph = facts.graph();
  std::vector<size_t> views;
  for (const size_t node : nodes) {
    for_each_operand_value(graph.nodes()[node], [&](Value value) {
      const int32_t maker = facts.maker(facts.root(value));
      const bool is_inside = maker >= 0 && contains(nodes, static_cast<size_t>(maker));
      const Value end = is_inside ? facts.root(value) : facts.source(value);
      for (Value at = value; !(at == end); at = std::get<Value>(graph.producer(at)->operands[0])) {
        views.push_back(static_cast<size_t>(facts.maker(at)));
      }
    });
  }
  std::sort(views.begin(), views.end());
  views.erase(std::unique(views.begin(), views.end()), views.end());
  return views;
}

std::vector<std::vector<size_t>> find_groups(const FusionFacts& facts, size_t begin, size_t end,
                                             const IsKernel& is_kernel, std::vector<Gap>* gaps) {
  // Asking for the last word costs a lowering, so it is asked once for each group; where it is no, merges with nodes of
  // such groups are asked about one by one.
  std::set<size_t> doubtful;
  for (;;) {
    Grouping grouping(facts, begin, end, is_kernel, doubtful);
    auto groups = grouping.run();
    const size_t known = doubtful.size();
    for (const auto& group : groups) {
      const bool is_known =
          std::any_of(group.begin(), group.end(), [&](size_t node) { return doubtful.count(node) != 0; });
      if (!is_known && !is_kernel(group)) doubtful.insert(group.begin(), group.end());
    }
    if (doubtful.size() != known) continue;
    if (gaps != nullptr) grouping.list_gaps(*gaps);
    return groups;
  }
}

}  // namespace diptych::detail
