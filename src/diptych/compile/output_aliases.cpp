#include "diptych/compile/output_aliases.h"

#include <map>

#include "diptych/passes/storage_roots.h"

namespace diptych::detail {

std::vector<OutputAlias> find_aliases(const Graph& forward, size_t num_outputs) {
  using Kind = OutputAlias::Kind;
  const auto roots = detail::storage_roots(forward);
  std::map<Value, OutputAlias> owner;  // by root: what any further tensor of that storage is a view of
  for (size_t i = 0; i < forward.inputs().size(); ++i) {
    owner.emplace(roots[forward.inputs()[i].id], OutputAlias{Kind::kViewOfInput, 0, i});
  }
  std::vector<OutputAlias> aliases;
  for (size_t i = 0; i < num_outputs; ++i) {
    const Value output = forward.outputs()[i];
    const auto [found, is_new] = owner.emplace(roots[output.id], OutputAlias{Kind::kViewOfOutput, 0, i});
    if (is_new) continue;
    OutputAlias alias = found->second;
    alias.output = i;
    const bool of_input = alias.kind == Kind::kViewOfInput;
    const Value target = of_input ? forward.inputs()[alias.target] : forward.outputs()[alias.target];
    if (output == target) alias.kind = of_input ? Kind::kIsInput : Kind::kIsOutput;
    aliases.push_back(alias);
  }
  return aliases;
}

}  // namespace diptych::detail
