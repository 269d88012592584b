#include "diptych/interpreter/plan.h"

#include <algorithm>

#include "diptych/base/check.h"
#include "diptych/graph/print.h"
#include "diptych/interpreter/allocated_results.h"
#include "diptych/ops/tags.h"

namespace diptych::detail {
namespace {

class PlanMaker {
 public:
  PlanMaker(const Graph& graph, const ProgramOptions& options)
      : graph_(graph), options_(options), lifetimes_(find_lifetimes(graph)), table_(graph) {}

  Compiled make() {
    place_inputs();
    for (size_t i = 0; i < graph_.nodes().size(); ++i) add_step(i);
    place_outputs();
    compiled_.constants = table_.take_constants();
    compiled_.scalars = table_.scalars();
    compiled_.lists = table_.lists();
    compiled_.numbers = table_.numbers();
    compiled_.num_registers = pool_.size();
    return std::move(compiled_);
  }

 private:
  void place_inputs() {
    for (const Value value : graph_.inputs()) table_.set_register(value, pool_.take());
    for (const Value value : lifetimes_.unused_inputs) {
      compiled_.unused_inputs.push_back(table_.reference(value));
      pool_.release(table_.reference(value));
    }
    compiled_.required_inputs = find_required_inputs();
  }

  std::vector<bool> find_required_inputs() const {
    std::vector<bool> required(graph_.inputs().size(), false);
    for (const Node& node : graph_.nodes()) {
      if (node.op.is_hop()) continue;
      for (size_t i = 0; i < node.operands.size(); ++i) {
        const auto* value = std::get_if<Value>(&node.operands[i]);
        if (value == nullptr || !*value || graph_.info(*value).kind != ValueInfo::Kind::kInput) continue;
        const bool is_optional = node.op.schema().arguments()[i].type()->kind() == c10::TypeKind::OptionalType;
        if (!is_optional) required[graph_.info(*value).index] = true;
      }
    }
    return required;
  }

  void check_operands(size_t index) const {
    const Node& node = graph_.nodes()[index];
    if (node.op.is_hop()) return;
    const size_t expected = node.op.schema().arguments().size();
    DIPTYCH_ASSERT(node.operands.size() == expected, "node {} of graph '{}' has {} operands, the schema has {}: {}",
                   index, graph_.name(), node.operands.size(), expected, node_line(graph_, node));
  }

  void add_step(size_t index) {
    check_operands(index);
    const Node& node = graph_.nodes()[index];
    const auto& dying = lifetimes_.dying[index];
    Step step;
    step.no_grad = !node.grad_enabled;
    const Value reusable = options_.reuse_buffers ? find_reusable_operand(graph_, node, dying) : Value{};
    if (reusable) {
      if (auto reuse = make_reuse(graph_, node, reusable, table_))
        step.reuse = std::make_unique<Reuse>(std::move(*reuse));
    }
    c10::SmallVector<int32_t, 4> dying_registers;
    for (const Value value : dying) dying_registers.push_back(table_.reference(value));
    const auto outputs = place_node_outputs(node, dying_registers, step.reuse.get());
    make_caller(index, outputs, dying_registers, step);
    step.outputs = outputs;
    for_each_operand_value(node, [&](Value value) { step.operands.push_back(table_.reference(value)); });
    // Registers are set only now: an output may have taken the register of an operand, which callers had to find under
    // the operand's name.
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i] >= 0) table_.set_register(node.outputs[i], outputs[i]);
    }
    list_dead_registers(dying_registers, outputs, step);
    compiled_.steps.push_back(std::move(step));
  }

  OutputRegisters place_node_outputs(const Node& node, c10::ArrayRef<int32_t> dying, const Reuse* reuse) {
    c10::SmallVector<int32_t, 4> free(dying.begin(), dying.end());
    OutputRegisters outputs;
    for (const Value value : node.outputs) {
      if (!value || !lifetimes_.is_used[value.id]) {
        outputs.push_back(-1);
      } else if (reuse != nullptr) {
        outputs.push_back(reuse->reference);
        free.erase(std::find(free.begin(), free.end(), reuse->reference));
      } else if (!free.empty() && !has_allocated_result(node)) {  // whose tensor is there before the call
        outputs.push_back(free.front());
        free.erase(free.begin());
      } else {
        outputs.push_back(pool_.take());
      }
    }
    return outputs;
  }

  void make_caller(size_t index, const OutputRegisters& outputs, c10::ArrayRef<int32_t> dying, Step& step) {
    const Node& node = graph_.nodes()[index];
    try {
      // Typed callers of mutating operators serve reuse alone: what they return has no reference count of its own.
      if (writes_part_of_complex(graph_, node)) {
        step.is_direct = false;
        step.caller = make_complex_part_caller(node, table_, outputs, dying);
        return;
      }
      if (!node.op.is_hop() && !has_tag(node.op, Tag::kMutating) && !reads_resolved(node)) {
        step.caller = make_typed_caller(node.op.handle(), table_, node.operands, outputs);
      }
      if (!step.caller) {
        step.is_direct = false;
        step.caller = make_boxed_caller(node, table_, outputs, dying);
      } else if (has_allocated_result(node) && outputs[0] >= 0) {
        step.caller = with_allocated_result(std::move(step.caller), node, table_, outputs[0]);
      }
    } catch (const std::exception&) {
      rethrow_in_node(graph_, index, {});
    }
  }

  void list_dead_registers(c10::ArrayRef<int32_t> dying, const OutputRegisters& outputs, Step& step) {
    step.dead_begin = static_cast<uint32_t>(compiled_.dead.size());
    for (const int32_t index : dying) {
      if (std::find(outputs.begin(), outputs.end(), index) != outputs.end()) continue;
      compiled_.dead.push_back(index);
      pool_.release(index);
    }
    step.dead_end = static_cast<uint32_t>(compiled_.dead.size());
  }

  void place_outputs() {
    const auto& outputs = graph_.outputs();
    for (size_t i = 0; i < outputs.size(); ++i) {
      const int32_t reference = table_.reference(outputs[i]);
      const bool comes_again =
          std::find(outputs.begin() + static_cast<std::ptrdiff_t>(i) + 1, outputs.end(), outputs[i]) != outputs.end();
      compiled_.outputs.push_back({reference, reference >= 0 && !comes_again});
    }
  }

  const Graph& graph_;
  const ProgramOptions& options_;
  const Lifetimes lifetimes_;
  OperandTable table_;
  RegisterPool pool_;
  Compiled compiled_;
};

}  // namespace

Compiled compile(const Graph& graph, const ProgramOptions& options) { return PlanMaker(graph, options).make(); }

SizeResolver::SizeResolver(const Graph& graph, const Compiled& compiled)
    : binder_(graph), scalars_(compiled.scalars), lists_(compiled.lists), numbers_(compiled.numbers) {}

std::shared_ptr<const DynamicSizes> SizeResolver::resolve(const std::vector<at::Tensor>& inputs) const {
  if (!binder_.has_symbols() && scalars_.empty() && lists_.empty() && numbers_.empty()) return nullptr;
  auto observed = binder_.observe(inputs);
  {
    const std::lock_guard lock(mutex_);
    if (last_ && observed == last_observed_) return last_;
  }
  auto sizes = std::make_shared<DynamicSizes>();
  sizes->symbols = binder_.solve(observed);
  const auto& symbols = sizes->symbols;
  for (const auto& scalar : scalars_) sizes->scalars.push_back(scalar.evaluate(symbols));
  for (const auto& list : lists_) {
    auto& evaluated = sizes->lists.emplace_back();
    for (const auto& size : list) evaluated.emplace_back(size.evaluate(symbols));
  }
  for (const auto& number : numbers_) sizes->numbers.push_back(number.evaluate(symbols));
  const std::lock_guard lock(mutex_);
  last_observed_ = std::move(observed);
  last_ = sizes;
  return sizes;
}

}  // namespace diptych::detail
