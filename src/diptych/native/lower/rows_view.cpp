// Nodes that compute nothing: their results run along the axes of their operand, in another way.
#include "diptych/native/lower/kernel_row.h"

namespace diptych::detail {
namespace {

Terms as_operand(NodeLowering& node) { return {node.own(0)}; }

constexpr KernelRow kViewRows[] = {
    also_complex({"aten.view", place_reshaped, as_operand, nullptr, 1U << 1U}),
    also_complex({"aten._unsafe_view", place_reshaped, as_operand, nullptr, 1U << 1U}),
    also_complex({"aten.reshape", place_reshaped, as_operand, nullptr, 1U << 1U}),
    also_complex({"aten.view_copy", place_reshaped, as_operand, nullptr, 1U << 1U}),
    also_complex({"aten._reshape_alias", place_reshaped, as_operand, nullptr, 1U << 1U | 1U << 2U}),
    also_complex({"aten.unsqueeze", place_reshaped, as_operand}),
    also_complex({"aten.squeeze", place_reshaped, as_operand}),
    also_complex({"aten.squeeze.dim", place_reshaped, as_operand}),
    also_complex({"aten.squeeze.dims", place_reshaped, as_operand}),
    also_complex({"aten.flatten.using_ints", place_reshaped, as_operand}),
    also_complex({"aten.permute", place_permuted, as_operand}),
    also_complex({"aten.transpose.int", place_permuted, as_operand}),
    also_complex({"aten.t", place_permuted, as_operand}),
    also_complex({"aten.expand", place_expanded, as_operand, nullptr, 1U << 1U}),
    also_complex({"aten.repeat", place_repeated, as_operand}),
};

}  // namespace

std::span<const KernelRow> view_rows() { return kViewRows; }

}  // namespace diptych::detail
