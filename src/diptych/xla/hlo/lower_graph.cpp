#include "diptych/xla/hlo/lower_graph.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>

#include "diptych/xla/hlo/lowering.h"
#include "diptych/xla/hlo/recomputation_barriers.h"

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
  return {index, meta.dtype, meta.size_hints(), memory_order(meta), meta.stride_hints(), {}, {}};
}

// Note [Packed weights]: the CPU plugin's products by XNNPACK pack their right operand once if it is a parameter of the
// program itself, and take it for the same as long as its address is the same. Our inputs are tensors' own memory,
// which an optimizer writes to between two runs, so a later run would compute with old weights. An input that a product
// may read therefore passes with a leading dimension of one: what is read is a reshaped parameter, which costs nothing
// and is not packed for good.
HloSlot unpacked(HloSlot slot) {
  if (!at::isFloatingType(slot.dtype) || slot.sizes.size() < 2) return slot;
  slot.passed.insert(slot.passed.begin(), 1);
  slot.sharding.insert(slot.sharding.begin(), "");
  return slot;
}

std::vector<int64_t> inverse(const std::vector<int64_t>& order) {
  std::vector<int64_t> positions(order.size());
  for (size_t i = 0; i < order.size(); ++i) positions[order[i]] = static_cast<int64_t>(i);
  return positions;
}

// The attributes of parameters and results, as MLIR writes them.
std::string mesh_text(const xla::Mesh& mesh) {
  if (mesh.num_devices() == 1) return {};
  std::vector<std::string> axes;
  for (size_t i = 0; i < mesh.names.size(); ++i) axes.push_back(fmt::format("\"{}\"={}", mesh.names[i], mesh.sizes[i]));
  return fmt::format("  sdy.mesh @mesh = <[{}]>\n", fmt::join(axes, ", "));
}

std::string sharding_text(const xla::Sharding& sharding) {
  std::vector<std::string> axes;
  for (const std::string& axis : sharding) axes.push_back(axis.empty() ? "{}" : fmt::format("{{\"{}\"}}", axis));
  return fmt::format("sdy.sharding = #sdy.sharding<@mesh, [{}]>", fmt::join(axes, ", "));
}

std::string attribute_text(const HloSlot& slot, const xla::Mesh& mesh, const std::map<size_t, size_t>& aliases = {},
                           size_t parameter = 0) {
  std::vector<std::string> attributes;
  if (mesh.num_devices() > 1) attributes.push_back(sharding_text(slot.sharding));
  if (const auto alias = aliases.find(parameter); alias != aliases.end()) {
    attributes.push_back(fmt::format("tf.aliasing_output = {} : i32", alias->second));
  }
  return attributes.empty() ? "" : fmt::format(" {{{}}}", fmt::join(attributes, ", "));
}

// Each parameter whose memory a result takes, with that result.
std::map<size_t, size_t> find_aliases(const HloAttributes& attributes, const HloModule& module) {
  std::map<size_t, size_t> aliases;
  const auto position = [](const std::vector<HloSlot>& slots, size_t index) -> size_t {
    return std::find_if(slots.begin(), slots.end(), [&](const HloSlot& slot) { return slot.index == index; }) -
           slots.begin();
  };
  for (const auto& [input, output] : attributes.donated) {
    const size_t from = position(module.inputs, input), to = position(module.outputs, output);
    if (from == module.inputs.size() || to == module.outputs.size()) continue;
    const HloSlot &old_slot = module.inputs[from], &new_slot = module.outputs[to];
    const bool fits = old_slot.dtype == new_slot.dtype && old_slot.passed == new_slot.passed &&
                      old_slot.sharding == new_slot.sharding;
    if (fits) aliases.emplace(from, to);
  }
  return aliases;
}

class GraphLowering {
 public:
  GraphLowering(const Graph& graph, const HloAttributes& attributes)
      : graph_(graph), attributes_(attributes), barriers_(graph), values_(graph.num_values()) {}

  HloModule lower() {
    mark_read();
    for (size_t i = 0; i < graph_.inputs().size(); ++i) add_input(i);
    for (size_t id = 0; id < graph_.num_values(); ++id) {
      const Value value{static_cast<int32_t>(id)};
      const ValueInfo& info = graph_.info(value);
      if (info.kind == ValueInfo::Kind::kConstant) add_constant(value, info.index);
    }
    for (size_t i = 0; i < graph_.nodes().size(); ++i) lower(graph_.nodes()[i], i);
    write_results();
    write_module();
    return std::move(module_);
  }

 private:
  void write_module() {
    const auto aliases = find_aliases(attributes_, module_);
    std::vector<std::string> parameters, results;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const bool is_input = i < module_.inputs.size();
      const HloSlot& slot = is_input ? module_.inputs[i] : module_.constants[i - module_.inputs.size()];
      if (aliases.count(i) != 0) module_.donated.push_back(i);
      parameters.push_back(fmt::format("{}: {}{}", parameters_[i].name, hlo_type(parameters_[i]),
                                       attribute_text(slot, attributes_.mesh, aliases, i)));
    }
    for (const HloSlot& output : module_.outputs) {
      results.push_back(hlo_type(output.dtype, output.passed) + attribute_text(output, attributes_.mesh));
    }
    module_.text =
        fmt::format("module @\"{}\" {{\n{}  func.func public @main({}) -> ({}) {{\n{}  }}\n}}\n", graph_.name(),
                    mesh_text(attributes_.mesh), fmt::join(parameters, ", "), fmt::join(results, ", "), writer_.text());
  }

  void mark_read() {
    is_read_.assign(graph_.num_values(), false);
    for (const Node& node : graph_.nodes())
      for_each_operand_value(node, [&](Value value) { is_read_[value.id] = true; });
  }

  bool is_complete() const { return attributes_.form == HloForm::kComplete; }

  // Says how a tensor passes, and how it is split.
  HloSlot slot_for(Value value, size_t index, const std::vector<xla::Sharding>& shardings, const char* what) const {
    HloSlot slot = slot_of(graph_.meta(value), index);
    if (is_complete()) std::iota(slot.order.begin(), slot.order.end(), 0);
    const auto complete =
        xla::complete_sharding(attributes_.mesh, index < shardings.size() ? shardings[index] : xla::Sharding(),
                               fmt::format("{} {} of graph '{}'", what, index, graph_.name()), slot.sizes);
    for (const int64_t dim : slot.order) {
      slot.passed.push_back(slot.sizes[dim]);
      slot.sharding.push_back(complete[dim]);
    }
    return slot;
  }

  void add_input(size_t index) {
    const Value value = graph_.inputs()[index];
    if (!is_complete() && !is_read_[value.id]) return;
    const HloSlot slot = slot_for(value, index, attributes_.inputs, "input");
    add_parameter(value, module_.inputs.emplace_back(is_complete() ? slot : unpacked(slot)));
  }

  void add_constant(Value value, size_t index) {
    if (!is_complete() && !is_read_[value.id]) return;
    const at::Tensor& constant = graph_.constants()[index];
    if (!is_complete() && constant.numel() == 1) {
      values_[value.id] = writer_.constant(constant.item(), constant.scalar_type(), constant.sizes().vec());
      return;
    }
    add_parameter(value, module_.constants.emplace_back(slot_for(value, index, {}, "constant")));
  }

  void add_parameter(Value value, const HloSlot& slot) {
    parameters_.push_back(HloWriter::argument(parameters_.size(), slot.dtype, slot.passed));
    std::vector<int64_t> sizes;
    for (const int64_t dim : slot.order) sizes.push_back(slot.sizes[dim]);
    values_[value.id] = writer_.transpose(writer_.reshape(parameters_.back(), sizes), inverse(slot.order));
  }

  void lower(const Node& node, size_t index) {
    writer_.set_location(fmt::format("node {} {}", index, node.op.name()));
    barriers_.lower(writer_, index, values_);
  }

  bool is_new_value(size_t output) const {
    return std::any_of(attributes_.donated.begin(), attributes_.donated.end(),
                       [&](const HloAttributes::Donation& donation) { return donation.output == output; });
  }

  void write_results() {
    std::vector<Hlo> results;
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      const Value value = graph_.outputs()[i];
      if (!value) continue;
      if (!is_complete() && graph_.info(value).kind != ValueInfo::Kind::kNode) continue;
      const HloSlot slot = slot_for(value, i, attributes_.outputs, "output");
      // What takes the memory of an input passes as the input does.
      module_.outputs.push_back(is_complete() || !is_new_value(i) ? slot : unpacked(slot));
      results.push_back(
          writer_.reshape(writer_.transpose(values_[value.id], slot.order), module_.outputs.back().passed));
    }
    writer_.write_return(results);
  }

  const Graph& graph_;
  const HloAttributes& attributes_;
  RecomputationBarriers barriers_;
  HloWriter writer_;
  HloModule module_;
  std::vector<Hlo> values_;
  std::vector<Hlo> parameters_;
  std::vector<bool> is_read_;
};

}  // namespace

HloModule lower_graph(const Graph& graph, const HloAttributes& attributes) {
  return GraphLowering(graph, attributes).lower();
}

}  // namespace diptych::detail
