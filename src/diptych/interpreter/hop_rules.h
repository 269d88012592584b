// The interpreter's rules for higher-order operators. The table is defined here and filled by hops/, so nothing in this
// room knows any operator by name.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych {
struct RunOptions;
}  // namespace diptych

namespace diptych::detail {

/// Runs one higher-order node: takes its operands in order (tensors, tensor lists, constants; sizes as integers) and
/// returns its outputs, one tensor each, undefined where there is none. Operands may be moved from.
using HopKernel =
    std::function<std::vector<at::Tensor>(std::vector<c10::IValue>&& operands, const RunOptions& options)>;

/// Makes the kernel of one node; called once when a Program is compiled, so subgraphs are compiled here and not per
/// run.
using HopRule = std::function<HopKernel(const Node& node)>;

/// The nodes that a rule takes: those without dynamic sizes in operands and subgraphs, so that there is one kernel for
/// each set of sizes, or all, whose kernels then serve all sizes.
enum class HopSizes : uint8_t { kStatic, kAny };

/// Sets the rule of an operator, replacing an earlier one. Threads: any.
void register_interpreter_rule(const HopSchema& hop, HopRule rule, HopSizes sizes = HopSizes::kStatic);
/// Whether the rule of an operator takes nodes with dynamic sizes. Threads: any.
bool takes_any_sizes(const HopSchema& hop);

/// Returns whether register_interpreter_rule was called for `hop`. Threads: any.
bool has_interpreter_rule(const HopSchema& hop);

/// Moves the tensors of a list out of a kernel's operand, so that each is freed when its reader releases it.
std::vector<at::Tensor> take_tensor_list(c10::IValue& operand);

/// Makes the kernel of a higher-order node. Errors: UserError names an operator that has no rule.
HopKernel make_hop_kernel(const Node& node);

}  // namespace diptych::detail
