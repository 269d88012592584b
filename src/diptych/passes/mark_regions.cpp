#include "diptych/passes/mark_regions.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "diptych/base/check.h"
#include "diptych/ops/tags.h"
#include "diptych/passes/region_budget.h"

namespace diptych::detail {
namespace {

bool is_forward(const Node& node) { return node.provenance.phase == Phase::kForward; }

// All residual names of the function, each once, in order.
std::vector<std::string> known_names(const Graph& graph, const std::vector<InternedString>& input_names) {
  std::vector<std::string> known;
  const auto add = [&](const std::string& names) {
    size_t begin = 0;
    while (begin < names.size()) {
      const size_t end = std::min(names.find(',', begin), names.size());
      auto name = names.substr(begin, end - begin);
      if (std::find(known.begin(), known.end(), name) == known.end()) known.push_back(std::move(name));
      begin = end + 1;
    }
  };
  for (const auto name : input_names) add(name.str());
  for (const Node& node : graph.nodes()) add(node.provenance.residual_name.str());
  return known;
}

void check_policies(const Graph& graph, const CheckpointedRegions& regions) {
  std::vector<std::string> known;
  for (const auto& [path, policy] : regions.regions) {
    DIPTYCH_CHECK(policy.decide || policy.budget,
                  "[checkpoint] the policy '{}' of region '{}' has no rule; set CheckpointPolicy::decide", policy.name,
                  path.str());
    if (!policy.residual_names.empty() && known.empty()) known = known_names(graph, regions.input_names);
    for (const auto& name : policy.residual_names) {
      DIPTYCH_CHECK(std::find(known.begin(), known.end(), name) != known.end(),
                    "[checkpoint] region '{}' saves the residual '{}', but no value has that name; known names: {}; "
                    "name the value with name_residual(), or correct the name",
                    path.str(), name, known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
    }
  }
}

class Marker {
 public:
  Marker(const Joint& joint, const CheckpointedRegions& regions)
      : joint_(joint), graph_(joint.graph), marks_(graph_.nodes().size()) {
    for (const auto& region : regions.regions) mark(region);
    save_draws();
  }

  std::vector<RegionMarks> marks() { return std::move(marks_); }

 private:
  void mark(const CheckpointedRegion& region) {
    const size_t depth = region_depth(region.path);
    std::vector<size_t> members;
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (is_forward(node) && common_region_depth(node.provenance.region, region.path) == depth) members.push_back(i);
    }
    if (region.policy.budget) {
      const auto decisions = keep_within_budget(joint_, region.path, members, *region.policy.budget);
      for (size_t i = 0; i < members.size(); ++i) marks_[members[i]].set(depth - 1, decisions[i]);
      return;
    }
    for (const size_t i : members) marks_[i].set(depth - 1, region.policy.decide(graph_, graph_.nodes()[i]));
    save_under_views(members, depth);
  }

  // Saving a view keeps its storage, so the nodes that make its bases are saved too, as far as they belong to the
  // region.
  void save_under_views(const std::vector<size_t>& members, size_t depth) {
    for (auto i = members.rbegin(); i != members.rend(); ++i) {
      const Node& node = graph_.nodes()[*i];
      if (marks_[*i].at(depth - 1) != Rematerialize::kSave || !has_tag(node.op, Tag::kSharesStorage)) continue;
      const auto* base = std::get_if<Value>(&node.operands[0]);
      const auto maker = base != nullptr && *base ? graph_.info(*base).node : -1;
      if (maker < 0 || !std::binary_search(members.begin(), members.end(), static_cast<size_t>(maker))) continue;
      marks_[maker].set(depth - 1, Rematerialize::kSave);
    }
  }

  void save_draws() {
    for (size_t i = 0; i < marks_.size(); ++i) {
      if (marks_[i].empty() || !has_effect(graph_.nodes()[i])) continue;
      const size_t depth = region_depth(graph_.nodes()[i].provenance.region);
      for (size_t at = 0; at < depth; ++at) marks_[i].set(at, Rematerialize::kSave);
    }
  }

  const Joint& joint_;
  const Graph& graph_;
  std::vector<RegionMarks> marks_;
};

}  // namespace

std::vector<RegionMarks> find_region_marks(const Joint& joint, const CheckpointedRegions& regions) {
  check_policies(joint.graph, regions);
  return Marker(joint, regions).marks();
}

void set_region_marks(Graph& graph, const std::vector<RegionMarks>& marks) {
  for (size_t i = 0; i < std::min(marks.size(), graph.nodes().size()); ++i) {
    if (marks[i].empty()) continue;
    Provenance provenance = graph.nodes()[i].provenance;
    provenance.marks = marks[i];
    graph.set_provenance(i, provenance);
  }
}

}  // namespace diptych::detail
