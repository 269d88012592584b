#include "diptych/graph/identical.h"

#include <algorithm>

#include "diptych/graph/operand.h"
#include "diptych/graph/print.h"
#include "diptych/graph/print_order.h"

namespace diptych::detail {
namespace {

bool same_sizes(const Sizes& a, const Sizes& b) { return identical(Operand(a), Operand(b)); }

bool same_meta(const TensorMeta& a, const TensorMeta& b) {
  return a.dtype == b.dtype && a.device == b.device && a.requires_grad == b.requires_grad &&
         same_sizes(a.sizes, b.sizes) && same_sizes(a.strides, b.strides);
}

bool same_info(const ValueInfo& a, const ValueInfo& b) {
  return a.kind == b.kind && a.node == b.node && a.index == b.index && same_meta(a.meta, b.meta);
}

bool same_slots(const std::vector<Slot>& a, const std::vector<Slot>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Slot& x, const Slot& y) { return x.kind == y.kind && x.path == y.path; });
}

bool same_origin(const Provenance& a, const Provenance& b) {
  return a.scope == b.scope && a.origin == b.origin && a.grad_of == b.grad_of && a.phase == b.phase &&
         a.region == b.region && a.marks == b.marks && a.residual_name == b.residual_name &&
         a.own_derivative == b.own_derivative;
}

using SameGraph = bool (*)(const Graph& a, const Graph& b);

// `same_graph` compares the subgraphs that the nodes own.
bool same_node(const Node& a, const Node& b, SameGraph same_graph) {
  return a.op == b.op && a.grad_enabled == b.grad_enabled &&
         std::equal(a.outputs.begin(), a.outputs.end(), b.outputs.begin(), b.outputs.end()) &&
         std::equal(a.returns.begin(), a.returns.end(), b.returns.begin(), b.returns.end()) &&
         std::equal(a.operands.begin(), a.operands.end(), b.operands.begin(), b.operands.end(),
                    [](const Operand& x, const Operand& y) { return identical(x, y); }) &&
         std::equal(a.subgraphs.begin(), a.subgraphs.end(), b.subgraphs.begin(), b.subgraphs.end(),
                    [&](const auto& x, const auto& y) { return x == y || (x && y && same_graph(*x, *y)); });
}

bool same_node(const Node& a, const Node& b) {
  return same_origin(a.provenance, b.provenance) && same_node(a, b, identical);
}

// Appends the elements in row-major order, a whole innermost row at a time if it is dense.
void append_bytes(std::string& bytes, const char* data, at::IntArrayRef sizes, at::IntArrayRef strides, int64_t item) {
  if (sizes.empty()) {
    bytes.append(data, item);
    return;
  }
  if (sizes.size() == 1 && strides[0] == 1) {
    bytes.append(data, sizes[0] * item);
    return;
  }
  for (int64_t i = 0; i < sizes[0]; ++i) {
    append_bytes(bytes, data + i * strides[0] * item, sizes.slice(1), strides.slice(1), item);
  }
}

}  // namespace

std::string dense_bytes(const at::Tensor& tensor) {
  at::Tensor source = tensor.device().is_cpu() ? tensor : tensor.cpu();
  // A lazy conjugate or negative has the bytes of what it is made of. Constants are none, and a trace, whose operators
  // have no memory, compares constants.
  if (source.is_conj() || source.is_neg()) source = source.resolve_conj().resolve_neg();
  std::string bytes;
  if (source.numel() == 0) return bytes;
  bytes.reserve(source.numel() * source.element_size());
  append_bytes(bytes, static_cast<const char*>(source.const_data_ptr()), source.sizes(), source.strides(),
               static_cast<int64_t>(source.element_size()));
  return bytes;
}

bool identical_tensors(const at::Tensor& a, const at::Tensor& b) {
  if (a.is_same(b)) return true;
  return a.scalar_type() == b.scalar_type() && a.device() == b.device() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.requires_grad() == b.requires_grad() &&
         a.unsafeGetTensorImpl()->is_wrapped_number() == b.unsafeGetTensorImpl()->is_wrapped_number() &&
         dense_bytes(a) == dense_bytes(b);
}

std::vector<at::Tensor> all_constants(const Graph& graph) {
  std::vector<at::Tensor> constants;
  walk(
      graph,
      [&](const Graph& owner, Value constant) { constants.push_back(owner.constants()[owner.info(constant).index]); },
      [&](const Graph&, const Node& node) {
        for (const auto& subgraph : node.subgraphs) {
          const auto inner = all_constants(*subgraph);
          constants.insert(constants.end(), inner.begin(), inner.end());
        }
      });
  return constants;
}

namespace {

bool same_values(const Graph& a, const Graph& b) {
  if (a.num_values() != b.num_values() || a.inputs() != b.inputs() || a.outputs() != b.outputs() ||
      a.constants().size() != b.constants().size() || a.nodes().size() != b.nodes().size()) {
    return false;
  }
  for (size_t i = 0; i < a.num_values(); ++i) {
    const Value value{static_cast<int32_t>(i)};
    if (!same_info(a.info(value), b.info(value))) return false;
  }
  return std::equal(a.constants().begin(), a.constants().end(), b.constants().begin(), identical_tensors);
}

}  // namespace

bool identical(const Graph& a, const Graph& b) {
  return a.name() == b.name() && same_slots(a.input_slots(), b.input_slots()) &&
         same_slots(a.output_slots(), b.output_slots()) && same_values(a, b) &&
         std::equal(a.nodes().begin(), a.nodes().end(), b.nodes().begin(),
                    [](const Node& x, const Node& y) { return same_node(x, y); });
}

bool same_but_origins(const Graph& a, const Graph& b) {
  return same_values(a, b) &&
         std::equal(a.nodes().begin(), a.nodes().end(), b.nodes().begin(),
                    [](const Node& x, const Node& y) { return same_node(x, y, same_but_origins); });
}

namespace {

std::string line_and_place(const Graph& graph, const Node& node) {
  const std::string scope = node.provenance.scope.str();
  return node_line(graph, node) + (scope.empty() ? "" : " in " + scope);
}

// The first constant that differs, by the node that reads it.
std::string first_other_constant(const Graph& before, const Graph& now) {
  for (size_t i = 0; i < std::min(before.constants().size(), now.constants().size()); ++i) {
    if (identical_tensors(before.constants()[i], now.constants()[i])) continue;
    for (const Node& node : before.nodes()) {
      bool reads = false;
      for_each_operand_value(node, [&](Value value) {
        const ValueInfo& info = before.info(value);
        reads |= info.kind == ValueInfo::Kind::kConstant && static_cast<size_t>(info.index) == i;
      });
      if (reads) return line_and_place(before, node) + ", and now with another tensor of the host's";
    }
  }
  return "";
}

}  // namespace

std::string first_difference(const Graph& before, const Graph& now) {
  if (same_but_origins(before, now)) return "";
  const auto &a = before.nodes(), &b = now.nodes();
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (same_node(a[i], b[i], same_but_origins)) continue;
    return line_and_place(before, a[i]) + ", and now " + line_and_place(now, b[i]);
  }
  if (std::string found = first_other_constant(before, now); !found.empty()) return found;
  return "other results, or results of other sizes";
}

}  // namespace diptych::detail
