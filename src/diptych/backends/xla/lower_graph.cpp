#include "diptych/backends/xla/lower_graph.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <numeric>

#include "diptych/backends/xla/lowering.h"

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
  HloSlot slot{index, meta.dtype, meta.size_hints(), memory_order(meta), meta.stride_hints(), {}};
  for (const int64_t dim : slot.order) slot.passed.push_back(slot.sizes[dim]);
  return slot;
}

// Note [Packed weights]: the CPU plugin's products by XNNPACK pack their right operand once if it is a parameter of the
// program itself, and take it for the same as long as its address is the same. Our inputs are tensors' own memory,
// which an optimizer writes to between two runs, so a later run would compute with old weights. An input that a product
// may read therefore passes with a leading dimension of one: what is read is a reshaped parameter, which costs nothing
// and is not packed for good.
HloSlot unpacked(HloSlot slot) {
  if (at::isFloatingType(slot.dtype) && slot.sizes.size() > 1) slot.passed.insert(slot.passed.begin(), 1);
  return slot;
}

std::vector<int64_t> inverse(const std::vector<int64_t>& order) {
  std::vector<int64_t> positions(order.size());
  for (size_t i = 0; i < order.size(); ++i) positions[order[i]] = static_cast<int64_t>(i);
  return positions;
}

class GraphLowering {
 public:
  explicit GraphLowering(const Graph& graph) : graph_(graph), values_(graph.num_values()) {}

  HloModule lower() {
    mark_read();
    for (size_t i = 0; i < graph_.inputs().size(); ++i) add_input(i);
    for (size_t id = 0; id < graph_.num_values(); ++id) {
      const Value value{static_cast<int32_t>(id)};
      const ValueInfo& info = graph_.info(value);
      if (info.kind != ValueInfo::Kind::kConstant || !is_read_[id]) continue;
      add_parameter(value, module_.constants.emplace_back(slot_of(graph_.meta(value), info.index)));
    }
    for (size_t i = 0; i < graph_.nodes().size(); ++i) lower(graph_.nodes()[i], i);
    write_results();
    std::vector<std::string> parameters, results;
    for (const Hlo& parameter : parameters_)
      parameters.push_back(fmt::format("{}: {}", parameter.name, hlo_type(parameter)));
    for (const HloSlot& output : module_.outputs) results.push_back(hlo_type(output.dtype, output.passed));
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

  void add_input(size_t index) {
    const Value value = graph_.inputs()[index];
    if (!is_read_[value.id]) return;
    add_parameter(value, module_.inputs.emplace_back(unpacked(slot_of(graph_.meta(value), index))));
  }

  void add_parameter(Value value, const HloSlot& slot) {
    parameters_.push_back(HloWriter::argument(parameters_.size(), slot.dtype, slot.passed));
    std::vector<int64_t> sizes;
    for (const int64_t dim : slot.order) sizes.push_back(slot.sizes[dim]);
    values_[value.id] = writer_.transpose(writer_.reshape(parameters_.back(), sizes), inverse(slot.order));
  }

  void lower(const Node& node, size_t index) {
    writer_.set_location(fmt::format("node {} {}", index, node.op.name()));
    auto results = lower_node(writer_, graph_, node, values_);
    for (size_t i = 0; i < results.size(); ++i) {
      if (node.outputs[i]) values_[node.outputs[i].id] = std::move(results[i]);
    }
  }

  void write_results() {
    std::vector<Hlo> results;
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      const Value value = graph_.outputs()[i];
      if (!value || graph_.info(value).kind != ValueInfo::Kind::kNode) continue;
      const HloSlot slot = slot_of(graph_.meta(value), i);
      results.push_back(writer_.transpose(values_[value.id], slot.order));
      module_.outputs.push_back(slot);
    }
    writer_.write_return(results);
  }

  const Graph& graph_;
  HloWriter writer_;
  HloModule module_;
  std::vector<Hlo> values_;
  std::vector<Hlo> parameters_;
  std::vector<bool> is_read_;
};

}  // namespace

HloModule lower_graph(const Graph& graph) { return GraphLowering(graph).lower(); }

}  // namespace diptych::detail
