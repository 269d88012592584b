#include "diptych/backends/xla/lower_graph.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <numeric>

#include "diptych/backends/xla/lowering.h"
#include "diptych/backends/xla/recomputation_barriers.h"

namespace diptych::detail {
namespace {

// The dimensions of a tensor from the slowest to the fastest in memory. Those of size one, whose strides have no
// effect, keep their places.
std::vector<int64_t> memory_order(const TensorMeta& meta) {
  const auto sizes = meta.size_hints(), strides = meta.stride_hints();
  std::vector<int64_t> order(sizes.size()), larger;
  std::iota(order.begin(), order.end(), 0);
  std::copy_if(order.begin(), order.end(), std::back_inserter(larger), [&](int64_t dim) { return sizes[dim] != 1; });
  std::stable_sort(larger.begin(), larger.end(), [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
  auto next = larger.begin();
  for (int64_t& dim : order) dim = sizes[dim] == 1 ? dim : *next++;
  return order;
}

HloSlot slot_of(const TensorMeta& meta, size_t index) {
  return {index, meta.dtype, meta.size_hints(), memory_order(meta), meta.stride_hints()};
}

std::vector<int64_t> in_memory(const HloSlot& slot) {
  std::vector<int64_t> sizes;
  for (const int64_t dim : slot.order) sizes.push_back(slot.sizes[dim]);
  return sizes;
}

std::vector<int64_t> inverse(const std::vector<int64_t>& order) {
  std::vector<int64_t> positions(order.size());
  for (size_t i = 0; i < order.size(); ++i) positions[order[i]] = static_cast<int64_t>(i);
  return positions;
}

class GraphLowering {
 public:
  GraphLowering(const Graph& graph, HloForm form)
      : graph_(graph), form_(form), barriers_(graph), values_(graph.num_values()) {}

  HloModule lower() {
    mark_read();
    for (size_t i = 0; i < graph_.inputs().size(); ++i) add_parameter(graph_.inputs()[i], i, module_.inputs);
    for (size_t id = 0; id < graph_.num_values(); ++id) {
      const Value value{static_cast<int32_t>(id)};
      const ValueInfo& info = graph_.info(value);
      if (info.kind == ValueInfo::Kind::kConstant) add_parameter(value, info.index, module_.constants);
    }
    for (size_t i = 0; i < graph_.nodes().size(); ++i) lower(graph_.nodes()[i], i);
    write_results();
    std::vector<std::string> parameters, results;
    for (size_t i = 0; i < parameters_.size(); ++i) parameters.push_back(declaration_of(i));
    for (const HloSlot& output : module_.outputs) results.push_back(hlo_type(output.dtype, in_memory(output)));
    module_.text = fmt::format("module @\"{}\" {{\n  func.func public @main({}) -> ({}) {{\n{}  }}\n}}\n",
                               graph_.name(), fmt::join(parameters, ", "), fmt::join(results, ", "), writer_.text());
    return std::move(module_);
  }

 private:
  void mark_read() {
    is_read_.assign(graph_.num_values(), false);
    for (const Node& node : graph_.nodes())
      for_each_operand_value(node, [&](Value value) { is_read_[value.id] = true; });
  }

  void add_parameter(Value value, size_t index, std::vector<HloSlot>& slots) {
    if (form_ == HloForm::kInMemory && !is_read_[value.id]) return;
    const HloSlot slot = slot_for(value, index);
    parameters_.push_back(HloWriter::argument(parameters_.size(), slot.dtype, in_memory(slot)));
    values_[value.id] = writer_.transpose(parameters_.back(), inverse(slot.order));
    slots.push_back(slot);
  }

  HloSlot slot_for(Value value, size_t index) const {
    HloSlot slot = slot_of(graph_.meta(value), index);
    if (form_ == HloForm::kComplete) std::iota(slot.order.begin(), slot.order.end(), 0);
    return slot;
  }

  // "%arg1: tensor<2xf32> {tf.aliasing_output = 1 : i32}": the result may take the memory of the parameter, which its
  // caller then gives away. This is the attribute that JAX writes for donated arguments.
  std::string declaration_of(size_t index) const {
    std::string text = fmt::format("{}: {}", parameters_[index].name, hlo_type(parameters_[index]));
    if (form_ == HloForm::kInMemory || index >= graph_.inputs().size()) return text;
    for (size_t i = 0; i < module_.outputs.size(); ++i) {
      const Slot& output = graph_.output_slots()[module_.outputs[i].index];
      const bool is_new_value = output.kind == SlotKind::kMutated && output.path == graph_.input_slots()[index].path;
      if (is_new_value) text += fmt::format(" {{tf.aliasing_output = {} : i32}}", i);
    }
    return text;
  }

  void lower(const Node& node, size_t index) {
    writer_.set_location(fmt::format("node {} {}", index, node.op.name()));
    auto results = barriers_.lower(writer_, index, values_);
    for (size_t i = 0; i < results.size(); ++i) {
      if (node.outputs[i]) values_[node.outputs[i].id] = std::move(results[i]);
    }
  }

  void write_results() {
    std::vector<Hlo> results;
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      const Value value = graph_.outputs()[i];
      if (!value) continue;
      if (form_ == HloForm::kInMemory && graph_.info(value).kind != ValueInfo::Kind::kNode) continue;
      const HloSlot slot = slot_for(value, i);
      results.push_back(writer_.transpose(values_[value.id], slot.order));
      module_.outputs.push_back(slot);
    }
    writer_.write_return(results);
  }

  const Graph& graph_;
  HloForm form_;
  RecomputationBarriers barriers_;
  HloWriter writer_;
  HloModule module_;
  std::vector<Hlo> values_;
  std::vector<Hlo> parameters_;
  std::vector<bool> is_read_;
};

}  // namespace

HloModule lower_graph(const Graph& graph, HloForm form) { return GraphLowering(graph, form).lower(); }

}  // namespace diptych::detail
