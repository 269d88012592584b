#include "diptych/native/plan/block_maker.h"

#include "diptych/base/check.h"
#include "diptych/graph/hop_attributes.h"
#include "diptych/native/call/call_shapes.h"
#include "diptych/native/fusion/fused_node.h"
#include "diptych/native/fusion/single_node.h"
#include "diptych/native/plan/arena_layout.h"
#include "diptych/native/plan/block_values.h"
#include "diptych/native/plan/loop_maker.h"
#include "diptych/native/plan/steps.h"
#include "diptych/ops/tags.h"
#include "diptych/ops/trace_traits.h"

namespace diptych::detail {
namespace {

constexpr int64_t kMostCopied = 256 << 10;  // bytes that the interpreter's results are copied at most, in one block

// Whether a node's offset is one from where its operand's memory begins, which a place does not tell.
bool counts_in_storage(const Node& node) {
  if (node.op.is_hop() || trace_trait(node.op) != TraceTrait::kCountsInStorage) return false;
  const auto* offset = std::get_if<c10::IValue>(&node.operands.back());
  return offset == nullptr || !offset->isNone();
}

class BlockMaker final : public StepBuilder {
 public:
  BlockMaker(const Graph& graph, const std::vector<BlockResult>& results, std::vector<Place>& windows)
      : graph_(graph), results_(results), windows_(windows), values_(checked(graph, results), results) {
    block_.num_inputs = graph.inputs().size();
    block_.num_outputs = results.size();
    places_.resize(graph.num_values());
  }

  Block make() {
    for (size_t i = 0; i < graph_.inputs().size(); ++i) {
      const Value input = graph_.inputs()[i];
      places_[input.id] = place_of(graph_.meta(input), static_cast<int32_t>(i));
    }
    for (size_t index = 0; index < graph_.nodes().size(); ++index) {
      add_node(graph_.nodes()[index]);
      release_temporaries();
      for (const Value value : values_.dying[index]) {
        if (values_.outputs[value.id] < 0) arena_.release(places_[value.id].offset, places_[value.id].span());
      }
    }
    for (size_t i = 0; i < results_.size(); ++i) {
      const Place to = place_of(results_[i].meta, output_region(i));
      const Place from = place(results_[i].value);
      if (from.region != to.region) add_copy(from, to);
    }
    block_.memory_bytes = arena_.size();
    return std::move(block_);
  }

  const Graph& graph() const override { return graph_; }
  std::vector<Place>& windows() override { return windows_; }

  Place place(Value value) override {
    const ValueInfo& info = graph_.info(value);
    if (info.kind == ValueInfo::Kind::kConstant && places_[value.id].region < 0) {
      const at::Tensor& constant = graph_.constants()[info.index];
      if (!constant.device().is_cpu() || constant.layout() != at::kStrided || constant.is_conj() || constant.is_neg()) {
        throw Unplannable{"a constant is no plain tensor of the CPU"};
      }
      places_[value.id] = {static_cast<int32_t>(block_.memory_region() + 1 + block_.constants.size()), 0,
                           constant.scalar_type(), constant.sizes().vec(), constant.strides().vec()};
      block_.constants.push_back(constant);
    }
    return places_[value.id];
  }

  Place in_layout(const Place& from, const TensorMeta& meta) override {
    if (from.has_strides(meta.stride_hints())) return from;
    Place to = place_of(meta, memory_region());
    if (!to.is_dense()) throw Unplannable{"a tensor is wanted in a layout that is not dense"};
    to.offset = take_temporary(to.span());
    add_copy(from, to);
    return to;
  }

  Place new_place(Value value) override {
    const int32_t output = values_.outputs[value.id];
    Place made = place_of(graph_.meta(value), output < 0 ? memory_region() : output_region(output));
    if (!made.is_dense()) throw Unplannable{"a result is not dense"};
    if (output < 0) made.offset = arena_.take(made.span());
    places_[value.id] = made;
    return made;
  }

  Place temporary(int64_t bytes) override { return {memory_region(), take_temporary(bytes), at::kByte, {bytes}, {1}}; }

  void add(std::unique_ptr<const PlanStep> step) override { block_.steps.push_back(std::move(step)); }

 private:
  static const Graph& checked(const Graph& graph, const std::vector<BlockResult>& results) {
    for (size_t i = 0; i < graph.num_values(); ++i) {
      const TensorMeta& meta = graph.meta(Value{static_cast<int32_t>(i)});
      if (!meta.is_static()) throw Unplannable{"sizes are dynamic"};
      if (!meta.device.is_cpu()) throw Unplannable{"a tensor is not on the CPU"};
    }
    for (const BlockResult& result : results) {
      if (!result.value) throw Unplannable{"a result is undefined"};
      if (!place_of(result.meta, 0).is_dense()) throw Unplannable{"a result is not dense"};
    }
    return graph;
  }

  int32_t memory_region() const { return static_cast<int32_t>(block_.memory_region()); }
  int32_t output_region(size_t output) const { return static_cast<int32_t>(block_.num_inputs + output); }

  int64_t take_temporary(int64_t bytes) {
    temporaries_.emplace_back(arena_.take(bytes), bytes);
    return temporaries_.back().first;
  }
  void release_temporaries() {
    for (const auto& [offset, bytes] : temporaries_) arena_.release(offset, bytes);
    temporaries_.clear();
  }

  size_t add_windows(const std::vector<Place>& first, const std::vector<Place>& second) {
    const size_t begin = windows_.size();
    windows_.insert(windows_.end(), first.begin(), first.end());
    windows_.insert(windows_.end(), second.begin(), second.end());
    return begin;
  }

  void add_copy(const Place& from, const Place& to) {
    add(std::make_unique<const CopyStep>(from, to, add_windows({from}, {to})));
  }

  void add_node(const Node& node) {
    if (has_effect(node)) throw Unplannable{node.op.name() + " has an effect"};
    if (counts_in_storage(node)) throw Unplannable{node.op.name() + " counts from where memory begins"};
    if (is_fused(node)) return add_kernel(node);
    if (add_loop(node, *this)) return;
    if (is_planned_view(graph_, node)) return add_views(node);
    if (auto product = Product::find(node)) return add_product(node, *std::move(product));
    add_operator(node);
  }

  void add_kernel(const Node& node) {
    const auto& body = node.subgraphs[0];
    const auto code = code_of(body);
    const auto shapes = code->code == nullptr ? nullptr : BodyShapes(*body, code).find({});
    if (shapes == nullptr) throw Unplannable{"kernel " + body->name() + " has no code"};
    std::vector<Place> inputs, outputs;
    const ValueList operands = group_of(node, "inputs");
    for (size_t i = 0; i < operands.size(); ++i) {
      inputs.push_back(in_layout(place(operands[i]), body->meta(body->inputs()[i])));
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      outputs.push_back(new_place(node.outputs[i]));
      DIPTYCH_ASSERT(outputs.back().has_strides(shapes->outputs[i].strides), "result {} of {} has other strides", i,
                     body->name());
    }
    if (shapes->is_empty) return;
    add(std::make_unique<const KernelStep>(code, shapes->symbols, std::move(inputs), std::move(outputs)));
  }

  void add_views(const Node& node) {
    const auto places = view_places(graph_, node, place(std::get<Value>(node.operands[0])));
    size_t next = 0;
    for (const Value output : node.outputs) {
      if (output) places_[output.id] = places[next++];
    }
  }

  void add_product(const Node& node, Product product) {
    std::vector<Place> operands;
    for (const Operand& operand : node.operands) {
      if (const auto* value = std::get_if<Value>(&operand)) operands.push_back(place(*value));
    }
    const Place result = new_place(node.outputs[0]);
    const size_t window = add_windows(operands, {result});
    add(std::make_unique<const ProductStep>(std::move(product), std::move(operands), result, window));
  }

  void add_operator(const Node& node) {
    std::vector<Place> inputs, outputs;
    for (const Value value : inputs_of_one(graph_, node)) {
      inputs.push_back(in_layout(place(value), graph_.meta(value)));
    }
    for (const Value output : node.outputs) {
      if (!output) continue;
      outputs.push_back(new_place(output));
      copied_ += outputs.back().bytes();
    }
    if (copied_ > kMostCopied) throw Unplannable{node.op.name() + " gives results that would have to be copied"};
    const size_t window = add_windows(inputs, outputs);
    add(std::make_unique<const OperatorStep>(graph_of_one(graph_, node), std::move(inputs), std::move(outputs),
                                             window));
  }

  const Graph& graph_;
  const std::vector<BlockResult>& results_;
  std::vector<Place>& windows_;
  BlockValues values_;
  std::vector<Place> places_;  // by value
  ArenaLayout arena_;
  std::vector<std::pair<int64_t, int64_t>> temporaries_;
  int64_t copied_ = 0;
  Block block_;
};

}  // namespace

Block make_block(const Graph& graph, const std::vector<BlockResult>& results, std::vector<Place>& windows) {
  return BlockMaker(graph, results, windows).make();
}

}  // namespace diptych::detail
