#include "diptych/native/fusion/group_rules.h"

#include <fmt/format.h>

#include <unordered_map>
#include <vector>

#include "diptych/native/fusion/cost_model.h"
#include "diptych/native/lower/lower_group.h"

namespace diptych::detail {
namespace {

constexpr size_t kMostReductions = 64;

class GroupRules {
 public:
  GroupRules(const FusionFacts& facts, const GroupSpace& space) : facts_(facts), graph_(facts.graph()), space_(space) {
    for (const size_t node : space.nodes()) {
      if (!space.reduced(node).empty()) reductions_.push_back(node);
    }
  }

  std::optional<std::string> find_problem(const std::function<bool(Value)>& is_needed) {
    if (reductions_.size() > kMostReductions) return "it has too many reductions";
    find_rows();
    if (!has_enough_rows()) return "too few rows for several threads";
    for (size_t r = 0; r < reductions_.size(); ++r) {
      const DimSet reduced = space_.reduced(reductions_[r]);
      if (!reduced.without(rows_).empty()) terminal_ |= uint64_t{1} << r;
    }
    for (const size_t node : space_.nodes()) {
      for (const Value output : graph_.nodes()[node].outputs) {
        if (auto problem = problem_of(node, output, is_needed(output))) {
          return fmt::format("%{} ({}): {}", output.id, graph_.nodes()[node].op.name(), *problem);
        }
      }
    }
    return std::nullopt;
  }

 private:
  // The reductions that a node depends on, itself aside, one bit each.
  uint64_t ended_before(size_t node) const {
    uint64_t ended = 0;
    for_each_operand_value(graph_.nodes()[node], [&](Value value) {
      if (const auto found = ended_.find(value.id); found != ended_.end()) ended |= found->second;
    });
    return ended;
  }

  // Whether the kernel reduces over all points what the node follows from.
  bool is_checked(size_t node) const { return is_checked_by_kernels(graph_, graph_.nodes()[node]); }

  // Finds which atoms make up rows, and which reductions each value depends on.
  void find_rows() {
    size_t next = 0;
    for (const size_t node : space_.nodes()) {
      const bool is_reduction = next < reductions_.size() && reductions_[next] == node;
      const uint64_t before = ended_before(node);
      const uint64_t own = is_reduction ? uint64_t{1} << next++ : 0;
      if (is_reduction && facts_.goes_twice(node)) rows_ = rows_ | space_.reduced(node);
      for (const Value output : graph_.nodes()[node].outputs) {
        ended_[output.id] = before | own;
        all_ = all_ | space_.domain(output) | space_.reduced(node);
        for (size_t r = 0; r < reductions_.size(); ++r) {
          const DimSet reduced = space_.reduced(reductions_[r]);
          const bool is_used = (before >> r & 1) != 0;
          const bool is_used_again = is_reduction || is_checked(node) || !(space_.domain(output) & reduced).empty();
          if (is_used && is_used_again) rows_ = rows_ | reduced;
        }
      }
    }
    points_ = all_.without(rows_);
    for (const size_t node : reductions_) find_parts(node);
  }

  // What a scattered sum counts through, and the positions at which it sums: no value that its slices are made of runs
  // along the latter, and none that it is added to along the former.
  void find_parts(size_t node) {
    if (!is_scattered_by_kernels(graph_, graph_.nodes()[node])) return;
    const DimSet counted = space_.reduced(node);
    DimSet slices;
    for_each_operand_value(graph_.nodes()[node], [&](Value value) {
      if (counted.without(space_.domain(value)).empty()) slices = slices | space_.domain(value);
    });
    counted_ = counted_ | counted;
    positions_ = positions_ | space_.domain(graph_.nodes()[node].outputs[0]).without(slices);
  }

  // Whether a value that does not run along these atoms is computed once nevertheless, by one part of a kernel.
  bool is_of_one_part(DimSet missing) const {
    return missing.without(positions_).empty() || missing.without(counted_).empty();
  }

  bool has_enough_rows() const {
    int64_t rows = 1, length = 1;
    const auto extents = space_.extents();
    for (size_t atom = 0; atom < extents.size(); ++atom) {
      (rows_.contains(static_cast<int32_t>(atom)) ? length : rows) *= extents[atom].hint();
    }
    return rows >= kFewRows || length <= kLongRow || rows_.empty();
  }

  std::optional<std::string> problem_of(size_t node, Value output, bool is_needed) const {
    const uint64_t ended = ended_.at(output.id) & terminal_;
    const DimSet domain = space_.domain(output), reduced = space_.reduced(node);
    if (is_checked(node) && (ended_before(node) & terminal_) != 0) return "checks what is added up over all points";
    if (!reduced.without(rows_).empty()) {
      if ((ended & (ended - 1)) != 0) return "adds up what is added up over all points";
      if (!points_.without(domain | reduced).empty()) return "would be added up several times";
      return std::nullopt;
    }
    if (ended != 0) return problem_after_points(ended, domain);
    if (points_.without(domain).empty()) return std::nullopt;
    if (is_needed) return "would be stored several times";
    if (ended_.at(output.id) == 0 && is_of_one_part(points_.without(domain))) return std::nullopt;
    if (domain.empty() && reduced.empty()) return std::nullopt;  // a number: computed once, before all loops
    if (!reduced.empty() || !is_cheap_to_repeat(graph_, graph_.nodes()[node])) return "would be computed several times";
    return std::nullopt;
  }

  // What follows terminal reductions runs along no more than their results.
  std::optional<std::string> problem_after_points(uint64_t ended, DimSet domain) const {
    for (size_t r = 0; r < reductions_.size(); ++r) {
      if ((ended >> r & 1) == 0) continue;
      const DimSet result = space_.domain(graph_.nodes()[reductions_[r]].outputs[0]);
      if (!domain.without(result).empty()) return "runs further than a sum over all points that it needs";
    }
    return std::nullopt;
  }

  const FusionFacts& facts_;
  const Graph& graph_;
  const GroupSpace& space_;
  std::vector<size_t> reductions_;
  std::unordered_map<int32_t, uint64_t> ended_;
  DimSet all_, rows_, points_, counted_, positions_;
  uint64_t terminal_ = 0;
};

}  // namespace

std::optional<std::string> find_group_problem(const FusionFacts& facts, const GroupSpace& space,
                                              const std::function<bool(Value)>& is_needed) {
  return GroupRules(facts, space).find_problem(is_needed);
}

}  // namespace diptych::detail
