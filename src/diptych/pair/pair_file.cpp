#include "diptych/pair/pair_file.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "diptych/base/check.h"
#include "diptych/compile/check_slots.h"
#include "diptych/compile/output_aliases.h"
#include "diptych/graph/names.h"
#include "diptych/graph/verify.h"
#include "diptych/hops/builtin_hops.h"

namespace diptych {

using namespace detail;
namespace {

size_t count(const std::vector<Slot>& slots, SlotKind kind) {
  return static_cast<size_t>(
      std::count_if(slots.begin(), slots.end(), [kind](const Slot& slot) { return slot.kind == kind; }));
}

JointLayout layout_of(const Graph& forward, const Graph& backward) {
  return {.num_arguments = count(forward.input_slots(), SlotKind::kArgument),
          .num_free_variables = count(forward.input_slots(), SlotKind::kFreeVariable),
          .num_tangents = count(backward.input_slots(), SlotKind::kTangent),
          .num_outputs = count(forward.output_slots(), SlotKind::kOutput),
          .num_mutated = count(forward.output_slots(), SlotKind::kMutated)};
}

// A file holds the free variables as a graph of constants.
Graph graph_of(const std::vector<at::Tensor>& tensors) {
  Graph graph("free_variables");
  std::vector<Value> outputs;
  std::vector<Slot> slots;
  for (size_t i = 0; i < tensors.size(); ++i) {
    outputs.push_back(graph.add_constant(tensors[i].detach()));
    slots.push_back({SlotKind::kOutput, fmt::format("free.{}", i)});
  }
  graph.set_outputs(std::move(outputs), std::move(slots));
  return graph;
}

[[noreturn]] void refuse_pair(const std::string& reason) {
  detail::throw_user_error(
      fmt::format("[make_pair] the graphs are not a pair: {}; pass a forward and its backward", reason));
}

void check_order(std::string_view what, const std::vector<Slot>& slots, const std::vector<SlotKind>& kinds) {
  size_t place = 0;
  for (size_t i = 0; i < slots.size(); ++i) {
    while (place < kinds.size() && slots[i].kind != kinds[place]) ++place;
    if (place < kinds.size()) continue;
    std::vector<std::string_view> names;
    for (const SlotKind kind : kinds) names.push_back(slot_kind_name(kind));
    refuse_pair(fmt::format("{} {} '{}' is of the kind {}, expected the kinds {}, in this order", what, i,
                            slots[i].path, slot_kind_name(slots[i].kind), fmt::join(names, ", ")));
  }
}

void check_orders(const Graph& forward, const Graph& backward) {
  using Kind = SlotKind;
  check_order("forward input", forward.input_slots(), {Kind::kArgument, Kind::kFreeVariable});
  check_order("forward output", forward.output_slots(), {Kind::kOutput, Kind::kMutated, Kind::kResidual});
  check_order("backward input", backward.input_slots(), {Kind::kResidual, Kind::kTangent});
  check_order("backward output", backward.output_slots(), {Kind::kGradient});
}

enum class Strides : uint8_t { kFree, kEqual };

// Strides of dimensions of size one have no effect.
bool same_strides(const TensorMeta& a, const TensorMeta& b) {
  for (size_t i = 0; i < a.sizes.size(); ++i) {
    if (!(a.strides[i] == b.strides[i] || a.sizes[i] == SizeExpr(1))) return false;
  }
  return true;
}

void check_types(const Slot& slot, const TensorMeta& forward, const TensorMeta& backward, Strides strides) {
  const bool fits = forward.dtype == backward.dtype && forward.device == backward.device &&
                    forward.sizes == backward.sizes && (strides == Strides::kFree || same_strides(forward, backward));
  if (fits) return;
  refuse_pair(fmt::format("for the {} '{}' the forward graph has {}, and the backward graph {}",
                          slot_kind_name(slot.kind), slot.path, type_string(forward), type_string(backward)));
}

// A residual may have other strides than the backward was traced for, unless a node depends on strides: a view that is
// legal only for some, or as_strided.
void check_residuals(const Graph& forward, const Graph& backward, size_t first, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const Value made = forward.outputs()[first + i], taken = backward.inputs()[i];
    const Slot& slot = backward.input_slots()[i];
    if (!made) refuse_pair(fmt::format("the forward graph makes no residual '{}'", slot.path));
    check_types(slot, forward.meta(made), backward.meta(taken),
                detail::strides_matter(backward, taken) ? Strides::kEqual : Strides::kFree);
  }
}

void check_tangents(const Graph& forward, const Graph& backward, const std::vector<size_t>& outputs, size_t first) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Value output = forward.outputs()[outputs[i]];
    const Slot& slot = backward.input_slots()[first + i];
    if (!output) refuse_pair(fmt::format("the tangent '{}' belongs to an output that does not exist", slot.path));
    check_types(slot, forward.meta(output), backward.meta(backward.inputs()[first + i]), Strides::kFree);
  }
}

void check_gradients(const Graph& forward, const Graph& backward) {
  const auto& gradients = backward.output_slots();
  const auto& inputs = forward.input_slots();
  if (backward.inputs().empty() && gradients.empty()) return;  // nothing is differentiated
  if (gradients.size() != inputs.size()) {
    refuse_pair(
        fmt::format("the backward graph returns {} gradients for {} forward inputs, expected one each (none where no "
                    "gradient flows)",
                    gradients.size(), inputs.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (gradients[i].path != inputs[i].path) {
      refuse_pair(fmt::format("gradient {} is that of '{}', expected that of '{}', forward input {}", i,
                              gradients[i].path, inputs[i].path, i));
    }
    const Value gradient = backward.outputs()[i];
    if (!gradient) continue;
    check_types(gradients[i], forward.meta(forward.inputs()[i]), backward.meta(gradient), Strides::kFree);
  }
}

}  // namespace

Pair make_pair(Graph forward, Graph backward, std::vector<at::Tensor> free_variables) {
  Pair pair;
  try {
    verify(forward);
    verify(backward);
    check_orders(forward, backward);
    pair.signature =
        Signature(forward, backward, detail::find_aliases(forward, count(forward.output_slots(), SlotKind::kOutput)));
  } catch (const InternalError& error) {
    refuse_pair(error.what());
  }
  const JointLayout layout = layout_of(forward, backward);
  const size_t num_residuals = backward.inputs().size() - layout.num_tangents;
  check_residuals(forward, backward, layout.num_forward_outputs(), num_residuals);
  check_tangents(forward, backward, pair.signature.differentiable_outputs(), num_residuals);
  check_gradients(forward, backward);
  DIPTYCH_CHECK(free_variables.size() == layout.num_free_variables,
                "[make_pair] got {} free variables, expected {}, one for each slot of that kind", free_variables.size(),
                layout.num_free_variables);
  pair.split = {forward, backward, layout, {}};
  pair.split.saved.assign(forward.outputs().begin() + static_cast<std::ptrdiff_t>(layout.num_forward_outputs()),
                          forward.outputs().end());
  pair.forward_program = LazyProgram(forward);
  pair.backward_program = LazyProgram(backward);
  pair.forward = std::move(forward);
  pair.backward = std::move(backward);
  pair.free_variables = std::move(free_variables);
  return pair;
}

GraphFile detail::file_of(const Pair& pair) {
  return {{{"forward", pair.forward}, {"backward", pair.backward}, {"free_variables", graph_of(pair.free_variables)}},
          {{"kind", "pair"}}};
}

void save(const Pair& pair, const std::string& path) { save(detail::file_of(pair), path); }

Pair load_pair(const std::string& path) {
  const GraphFile file = load(path, find_hop);
  const auto kind = file.metadata.find("kind");
  DIPTYCH_CHECK(kind != file.metadata.end() && kind->second == "pair",
                "[load_pair] '{}' holds graphs that are not a pair; read it with load()", path);
  const Graph& constants = file.graph("free_variables");
  std::vector<at::Tensor> free_variables;
  for (const Value value : constants.outputs()) {
    DIPTYCH_CHECK(value && constants.info(value).kind == ValueInfo::Kind::kConstant,
                  "[load_pair] '{}' does not hold the free variable {} as a tensor; save the pair again", path,
                  free_variables.size());
    free_variables.push_back(constants.constants()[constants.info(value).index]);
  }
  return make_pair(file.graph("forward"), file.graph("backward"), std::move(free_variables));
}

}  // namespace diptych
