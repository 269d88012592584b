#include "diptych/xla/hlo/lowering_loops.h"

#include <algorithm>

#include "diptych/base/list.h"
#include "diptych/graph/hop_attributes.h"
#include "diptych/xla/hlo/hlo_text.h"

namespace diptych::detail {

std::vector<Hlo> hop_group(const Lowering& node, std::string_view group) {
  std::vector<Hlo> list;
  for (const Value value : group_of(node.node(), group)) list.push_back(node.value(value));
  return list;
}

const Graph& hop_body(const Lowering& node, size_t index) { return *node.node().subgraphs[index]; }

bool returns_all(const Lowering& node) {
  const auto is_whole = [](const auto& body) {
    return std::all_of(body->outputs().begin(), body->outputs().end(),
                       [](Value value) { return static_cast<bool>(value); });
  };
  return std::all_of(node.node().subgraphs.begin(), node.node().subgraphs.end(), is_whole);
}

std::vector<Hlo> starts_along(HloWriter& writer, int64_t rank, int64_t dim, const Hlo& place) {
  std::vector<Hlo> starts(rank, writer.constant(0, at::kLong));
  starts.at(dim) = place;
  return starts;
}
Hlo slice_at(HloWriter& writer, const Hlo& x, int64_t dim, const Hlo& place) {
  auto sizes = x.sizes;
  sizes.at(dim) = 1;
  return writer.dynamic_slice(x, starts_along(writer, x.dim(), dim, place), sizes);
}

Hlo write_rows(HloWriter& writer, const Hlo& stack, const Hlo& values, const Hlo& place, int64_t count) {
  auto sizes = stack.sizes;
  sizes[0] = count;
  return writer.dynamic_update_slice(stack, writer.reshape(values, sizes), starts_along(writer, stack.dim(), 0, place));
}

Hlo read_rows(HloWriter& writer, const Hlo& stack, const Hlo& place, int64_t count, const std::vector<int64_t>& sizes) {
  auto slice = stack.sizes;
  slice[0] = count;
  return writer.reshape(writer.dynamic_slice(stack, starts_along(writer, stack.dim(), 0, place), slice), sizes);
}

Hlo predicate(HloWriter& writer, const Hlo& value) {
  const Hlo scalar = writer.reshape(value, {});
  return writer.compare("NE", scalar, writer.constant(0, scalar.dtype));
}

Hlo any_set(HloWriter& writer, const Hlo& flags) {
  return writer.reduce("or", flags, writer.constant(false, at::kBool), counted(0, flags.dim()));
}

std::vector<Hlo> counted_loop(HloWriter& writer, const Hlo& begin, const Hlo& end, const std::vector<Hlo>& state,
                              const std::vector<Hlo>& constant, const LoopStep& step) {
  // Regions see nothing but their arguments, so all that a step reads is part of the state.
  const auto all = joined(joined({begin, end}, state), constant);
  const auto condition = [](HloWriter& inner, std::span<const Hlo> values) -> std::vector<Hlo> {
    return {inner.compare("LT", values[0], values[1])};
  };
  const auto body = [&](HloWriter& inner, std::span<const Hlo> arguments) {
    const std::vector<Hlo> values(arguments.begin(), arguments.end());
    const auto unchanged = part(values, 2 + state.size(), constant.size());
    auto next = step(inner, values[0], part(values, 2, state.size()), unchanged);
    const Hlo index = inner.binary("add", values[0], inner.constant(1, at::kLong));
    return joined(joined({index, values[1]}, std::move(next)), unchanged);
  };
  return part(writer.while_loop(all, condition, body), 2, state.size());
}

}  // namespace diptych::detail
