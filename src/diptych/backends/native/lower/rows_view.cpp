// Nodes that compute nothing: their results run along the axes of their operand, in another way.
#include "diptych/backends/native/lower/kernel_row.h"

namespace diptych::detail {
namespace {

Terms as_operand(NodeLowering& node) { return {node.own(0)}; }

constexpr KernelRow kViewRows[] = {
    {"aten.view", place_reshaped, as_operand, nullptr, 1U << 1U},
    {"aten._unsafe_view", place_reshaped, as_operand, nullptr, 1U << 1U},
    {"aten.reshape", place_reshaped, as_operand, nullptr, 1U << 1U},
    {"aten.view_copy", place_reshaped, as_operand, nullptr, 1U << 1U},
    {"aten._reshape_alias", place_reshaped, as_operand, nullptr, 1U << 1U | 1U << 2U},
    {"aten.unsqueeze", place_reshaped, as_operand},
    {"aten.squeeze", place_reshaped, as_operand},
    {"aten.squeeze.dim", place_reshaped, as_operand},
    {"aten.squeeze.dims", place_reshaped, as_operand},
    {"aten.flatten.using_ints", place_reshaped, as_operand},
    {"aten.permute", place_permuted, as_operand},
    {"aten.transpose.int", place_permuted, as_operand},
    {"aten.t", place_permuted, as_operand},
    {"aten.expand", place_expanded, as_operand, nullptr, 1U << 1U},
    {"aten.repeat", place_repeated, as_operand},
};

}  // namespace

std::span<const KernelRow> view_rows() { return kViewRows; }

}  // namespace diptych::detail
