#include "diptych/scan_passes/stack_views.h"

#include <ATen/Functions.h>

#include <algorithm>

#include "diptych/base/check.h"
#include "diptych/interpreter/run_guards.h"
#include "diptych/ops/tags.h"

namespace diptych::detail {
namespace {

struct Found {
  size_t stack = 0;
  bool has_front = false;
  bool going_in = false;
};

std::optional<Found> find_rows(const ScanEdit& edit, Value value) {
  std::optional<Found> found;
  for (size_t i = 0; i < edit.stacks.size(); ++i) {
    const auto& stack = edit.stacks[i];
    if (stack.value == value && !stack.front) return Found{i, false, false};
    if (stack.value == value) found = Found{i, true, false};
    const auto carry = std::find_if(edit.carries.begin(), edit.carries.end(), [&](const auto& each) {
      return stack.front && each.in == stack.front && each.in == value && each.out == stack.value;
    });
    if (carry != edit.carries.end() && !found) found = Found{i, true, true};
  }
  return found;
}

}  // namespace

bool has_rows_of(const ScanEdit& edit, Value value) { return find_rows(edit, value).has_value(); }

Value rows_of(Emitter& emitter, const ScanEdit& edit, const ScanEdit::Results& results, Value value) {
  const auto found = find_rows(edit, value);
  DIPTYCH_ASSERT(found.has_value(), "%{} of a scan's body is not stacked", value.id);
  const Value stack = results.stacks[found->stack];
  return found->has_front ? rows_of_carry(emitter, stack, edit.attributes, found->going_in) : stack;
}

Value rows_of_carry(Emitter& emitter, Value stack, const ScanAttributes& scan, bool going_in) {
  const int64_t begin = going_in == scan.reverse ? 1 : 0;
  return emitter.call("aten.slice.Tensor",
                      {stack, c10::IValue(0), c10::IValue(begin), c10::IValue(begin + scan.length)});
}

bool is_zeros(const Graph& graph, Value value) {
  if (const Node* producer = graph.producer(value)) {
    if (has_tag(producer->op, Tag::kSharesStorage)) return is_zeros(graph, std::get<Value>(producer->operands[0]));
    return has_tag(producer->op, Tag::kZeros);
  }
  const auto& info = graph.info(value);
  if (info.kind != ValueInfo::Kind::kConstant) return false;
  const RunBelowAutograd guard;
  const at::Tensor& constant = graph.constants()[info.index];
  return constant.numel() == 0 || !constant.ne(0).any().item<bool>();
}

}  // namespace diptych::detail
