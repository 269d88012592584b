#include "diptych/native/plan/loop_maker.h"

#include <algorithm>
#include <string_view>

#include "diptych/graph/hop_attributes.h"
#include "diptych/native/kernel/memory_extent.h"
#include "diptych/native/plan/block_maker.h"
#include "diptych/native/plan/loop_steps.h"

namespace diptych::detail {
namespace {

using Results = std::vector<BlockResult>;
using Step = std::unique_ptr<const PlanStep>;

// The places of operands, laid out as the inputs of a body from number `first` on.
std::vector<Place> places(const ValueList& values, const Graph& body, size_t first, StepBuilder& builder) {
  std::vector<Place> found;
  for (size_t i = 0; i < values.size(); ++i) {
    found.push_back(builder.in_layout(builder.place(values[i]), body.meta(body.inputs()[first + i])));
  }
  return found;
}

std::vector<Place> new_places(const Node& node, StepBuilder& builder) {
  std::vector<Place> made;
  for (const Value output : node.outputs) {
    if (!output) throw Unplannable{node.op.name() + " gives an undefined result"};
    made.push_back(builder.new_place(output));
  }
  return made;
}

Block make_body(const Graph& body, const Results& results, Place& memory, StepBuilder& builder) {
  Block block = make_block(body, results, builder.windows());
  memory = builder.temporary(block.memory_bytes);
  return block;
}

// A carry whose next value is an output of the block, which `results` gets, or stays what it is.
Carry make_carry(const Graph& body, size_t index, const Place& init, const Place& to, Results& results,
                 StepBuilder& builder) {
  const TensorMeta& meta = body.meta(body.inputs()[index]);
  if (!init.is_dense() || !to.has_strides(meta.stride_hints())) throw Unplannable{"a carry is not dense"};
  Carry carry{init, to, {}};
  if (body.outputs()[index] == body.inputs()[index]) return carry;
  carry.output = static_cast<int32_t>(results.size());
  results.push_back({body.outputs()[index], meta});
  carry.buffers = builder.temporary(2 * rounded_up(init.span(), kCacheLine));
  return carry;
}

class ScanMaker {
 public:
  ScanMaker(const Node& node, StepBuilder& builder, bool is_blocked)
      : node_(node),
        body_(*node.subgraphs[0]),
        builder_(builder),
        is_blocked_(is_blocked),
        scan_(ScanAttributes::of(HopAttributes::of(node))) {
    if (is_blocked) plan_.rows_per_step = HopAttributes::of(node).integer("block");
    plan_.steps = scan_.length / plan_.rows_per_step;
    plan_.reverse = scan_.reverse;
  }

  Step make() {
    const ValueList init = group_of(node_, "init"), xs = group_of(node_, "xs"), free = group_of(node_, "free");
    const auto results = new_places(node_, builder_);
    const auto inits = places(init, body_, 0, builder_);
    for (size_t i = 0; i < xs.size(); ++i) plan_.slices.push_back(slices(xs[i], init.size() + i));
    plan_.free = places(free, body_, init.size() + xs.size(), builder_);
    Results outputs;
    for (size_t i = init.size(); i < results.size(); ++i) add_stack(results[i], i, inits, outputs);
    for (size_t i = 0; i < init.size(); ++i) add_carry(i, inits[i], results[i], outputs);
    plan_.block = make_body(body_, outputs, plan_.memory, builder_);
    return std::make_unique<const ScanStep>(std::move(plan_));
  }

 private:
  // All of what is sliced, its slices laid out as the body's input.
  Place slices(Value value, size_t input) {
    const TensorMeta& meta = body_.meta(body_.inputs()[input]);
    const Place whole = builder_.place(value);
    if (!place_of(meta, 0).is_dense()) throw Unplannable{"a slice is not dense"};
    if (is_blocked_) return builder_.in_layout(whole, stacked(slice_of(meta), scan_.length));
    Place row = whole;
    row.sizes.erase(row.sizes.begin());
    row.strides.erase(row.strides.begin());
    return row.has_strides(meta.stride_hints()) ? whole : builder_.in_layout(whole, stacked(meta, scan_.length));
  }

  void add_stack(const Place& place, size_t result, const std::vector<Place>& inits, Results& outputs) {
    const TensorMeta& stack = builder_.graph().meta(node_.outputs[result]);
    const size_t number = result - inits.size();
    StackPlace made{place, static_cast<int32_t>(outputs.size())};
    if (scan_.has_front(number)) {
      made.front = static_cast<int32_t>(scan_.fronts[number]);
      const Place front = place_of(slice_of(stack), 0);
      const bool fits = front.is_dense() && inits[made.front].has_strides(front.strides);
      if (!fits) throw Unplannable{"a stack and its front have other strides"};
    }
    TensorMeta rows = stack;
    rows.sizes[0] = SizeExpr(plan_.rows_per_step);
    outputs.push_back({body_.outputs()[result], is_blocked_ ? rows : slice_of(stack)});
    plan_.stacks.push_back(std::move(made));
  }

  // A carry that is stacked, too, lies in the stack's row.
  void add_carry(size_t index, const Place& init, const Place& result, Results& outputs) {
    const auto stack = std::find_if(plan_.stacks.begin(), plan_.stacks.end(), [&](const StackPlace& stack) {
      return !is_blocked_ && outputs[stack.output].value == body_.outputs()[index] &&
             place_of(outputs[stack.output].meta, 0).has_strides(init.strides);
    });
    const bool is_stacked = stack != plan_.stacks.end() && body_.outputs()[index] != body_.inputs()[index] &&
                            init.is_dense() && result.has_strides(init.strides);
    Carry carry = is_stacked ? Carry{init, result, {}, -1, static_cast<int32_t>(stack - plan_.stacks.begin())}
                             : make_carry(body_, index, init, result, outputs, builder_);
    plan_.carries.push_back(std::move(carry));
  }

  const Node& node_;
  const Graph& body_;
  StepBuilder& builder_;
  bool is_blocked_;
  ScanAttributes scan_;
  ScanPlan plan_;
};

Step make_scan_step(const Node& node, StepBuilder& builder) { return ScanMaker(node, builder, false).make(); }
Step make_blocked_scan_step(const Node& node, StepBuilder& builder) { return ScanMaker(node, builder, true).make(); }

void check_predicate(const TensorMeta& meta) {
  if (meta.dtype != at::kBool || meta.numel() != 1) throw Unplannable{"a predicate is not one bool"};
}

Step make_while_step(const Node& node, StepBuilder& builder) {
  const Graph& condition = *node.subgraphs[0];
  const Graph& body = *node.subgraphs[1];
  const ValueList init = group_of(node, "init");
  WhilePlan plan;
  const auto results = new_places(node, builder);
  const auto inits = places(init, body, 0, builder);
  plan.condition_free = places(group_of(node, "condition_free"), condition, init.size(), builder);
  plan.free = places(group_of(node, "step_free"), body, init.size(), builder);
  Results outputs;
  for (size_t i = 0; i < init.size(); ++i) {
    const auto wanted = condition.meta(condition.inputs()[i]).stride_hints();
    if (!inits[i].has_strides(wanted)) throw Unplannable{"condition and step take a carry in different layouts"};
    plan.carries.push_back(make_carry(body, i, inits[i], results[i], outputs, builder));
  }
  plan.block = make_body(body, outputs, plan.memory, builder);
  const Value holds = condition.outputs()[0];
  if (!holds) throw Unplannable{"a condition is undefined"};
  check_predicate(condition.meta(holds));
  plan.condition = make_body(condition, {{holds, condition.meta(holds)}}, plan.condition_memory, builder);
  plan.holds = builder.temporary(1);
  return std::make_unique<const WhileStep>(std::move(plan));
}

Branch make_branch(const Graph& body, const ValueList& operands, const Node& node, const std::vector<Place>& results,
                   StepBuilder& builder) {
  Branch branch;
  branch.inputs = places(operands, body, 0, builder);
  branch.outputs = results;
  Results outputs;
  for (size_t i = 0; i < results.size(); ++i) {
    outputs.push_back({body.outputs()[i], builder.graph().meta(node.outputs[i])});
  }
  branch.block = make_block(body, outputs, builder.windows());
  return branch;
}

// The operands that body number `body` takes: the groups of those names.
ValueList operands_of(const Node& node, std::initializer_list<std::string_view> groups) {
  ValueList operands;
  for (const std::string_view group : groups) {
    const ValueList values = group_of(node, group);
    operands.insert(operands.end(), values.begin(), values.end());
  }
  return operands;
}

// Only one branch runs, so they have one memory.
Step make_branch_step(std::vector<Place> predicate, std::vector<Branch> branches, StepBuilder& builder) {
  int64_t bytes = 0;
  for (const Branch& branch : branches) bytes = std::max(bytes, branch.block.memory_bytes);
  const Place memory = builder.temporary(bytes);
  for (Branch& branch : branches) branch.memory = memory;
  return std::make_unique<const BranchStep>(std::move(predicate), std::move(branches));
}

Step make_cond_step(const Node& node, StepBuilder& builder) {
  const Value predicate = std::get<Value>(node.operands[0]);
  check_predicate(builder.graph().meta(predicate));
  const auto results = new_places(node, builder);
  std::vector<Branch> branches;
  branches.push_back(make_branch(*node.subgraphs[0], operands_of(node, {"args", "true_free"}), node, results, builder));
  branches.push_back(
      make_branch(*node.subgraphs[1], operands_of(node, {"args", "false_free"}), node, results, builder));
  return make_branch_step({builder.place(predicate)}, std::move(branches), builder);
}

Step make_invoke_step(const Node& node, StepBuilder& builder) {
  const auto results = new_places(node, builder);
  std::vector<Branch> branches;
  branches.push_back(make_branch(*node.subgraphs[0], operands_of(node, {"args", "free"}), node, results, builder));
  return make_branch_step({}, std::move(branches), builder);
}

Step make_planned_step(const Node& node, StepBuilder& builder) {
  const auto results = new_places(node, builder);
  std::vector<Branch> branches;
  branches.push_back(make_branch(*node.subgraphs[0], operands_of(node, {"inputs"}), node, results, builder));
  return make_branch_step({}, std::move(branches), builder);
}

struct Row {
  std::string_view op;
  Step (*make)(const Node& node, StepBuilder& builder);
};

constexpr Row kRows[] = {
    {"hop.scan", make_scan_step},        {"hop.blocked_scan", make_blocked_scan_step},
    {"hop.while_loop", make_while_step}, {"hop.cond", make_cond_step},
    {"hop.invoke", make_invoke_step},    {"hop.planned", make_planned_step},
};

const Row* find_row(const Node& node) {
  if (!node.op.is_hop()) return nullptr;
  const std::string name = node.op.name();
  const auto* const found =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& row) { return row.op == name; });
  return found == std::end(kRows) ? nullptr : found;
}

}  // namespace

bool is_planned_loop(const Node& node) { return find_row(node) != nullptr; }

bool add_loop(const Node& node, StepBuilder& builder) {
  const Row* const row = find_row(node);
  if (row == nullptr) return false;
  builder.add(row->make(node, builder));
  return true;
}

}  // namespace diptych::detail
