#include "diptych/ops/checkpoint_policy.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "diptych/base/check.h"
#include "diptych/ops/tags.h"

namespace diptych {

using namespace detail;
namespace {

CheckpointPolicy save_where(std::string name, bool (*is_saved)(const Node&)) {
  return {std::move(name), [is_saved](const Graph&, const Node& node) {
            return is_saved(node) ? Rematerialize::kSave : Rematerialize::kRecompute;
          }};
}

bool is_more_than_pointwise(const Node& node) {
  constexpr uint32_t kCheap = static_cast<uint32_t>(Tag::kPointwise) | static_cast<uint32_t>(Tag::kCopy) |
                              static_cast<uint32_t>(Tag::kFactory) | static_cast<uint32_t>(Tag::kSharesStorage);
  return (tags(node.op) & kCheap) == 0;
}

}  // namespace

CheckpointPolicy save_nothing() {
  return save_where("save_nothing", [](const Node&) { return false; });
}

CheckpointPolicy save_everything_but_pointwise() {
  return save_where("save_everything_but_pointwise", is_more_than_pointwise);
}

CheckpointPolicy save_matrix_products() {
  return save_where("save_matrix_products", [](const Node& node) { return has_tag(node.op, Tag::kComputeHeavy); });
}

CheckpointPolicy save_names(std::vector<std::string> names) {
  CheckpointPolicy policy{fmt::format("save_names({})", fmt::join(names, ", "))};
  policy.residual_names = names;
  policy.decide = [names = std::move(names)](const Graph&, const Node& node) {
    const auto is_its = [&](const std::string& name) { return has_residual_name(node.provenance.residual_name, name); };
    return std::any_of(names.begin(), names.end(), is_its) ? Rematerialize::kSave : Rematerialize::kRecompute;
  };
  return policy;
}

CheckpointPolicy save_within_budget(double fraction) {
  DIPTYCH_CHECK(fraction >= 0 && fraction <= 1,
                "[save_within_budget] got the fraction {}, expected one between 0 (keep nothing of the region) and 1 "
                "(keep what the partitioner saves)",
                fraction);
  CheckpointPolicy policy{fmt::format("save_within_budget({})", fraction)};
  policy.budget = fraction;
  return policy;
}

}  // namespace diptych
