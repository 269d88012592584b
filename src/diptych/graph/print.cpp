#include "diptych/graph/print.h"

#include <fmt/format.h>
#include <algorithm>

#include "diptych/base/error.h"
#include "diptych/graph/bare_words.h"
#include "diptych/graph/names.h"
#include "diptych/graph/operand.h"
#include "diptych/graph/print_order.h"

namespace diptych::detail {
namespace {

std::string word_or_quoted(const std::string& text) { return is_bare_word(text) ? text : quoted_text(text); }

std::string typed(const TensorMeta& meta) { return type_string(meta) + (meta.requires_grad ? " grad" : ""); }

std::string typed_value(const Graph& graph, Value value) {
  return value ? fmt::format("%{} : {}", value.id, typed(graph.meta(value))) : "none";
}

std::string input_text(const Graph& graph, size_t i) {
  const Value input = graph.inputs()[i];
  const Slot& slot = graph.input_slots()[i];
  const auto kind = slot.kind == SlotKind::kArgument ? "" : fmt::format(" {}", slot_kind_name(slot.kind));
  const auto path = slot.path.empty() ? "" : " " + word_or_quoted(slot.path);
  return fmt::format("%{}{} : {}{}", input.id, path, typed(graph.meta(input)), kind);
}

std::string output_text(const Graph& graph, size_t i) {
  const Value output = graph.outputs()[i];
  const Slot& slot = graph.output_slots()[i];
  std::string text = output ? fmt::format("%{}", output.id) : "none";
  const bool has_kind = slot.kind != SlotKind::kOutput;
  if (!slot.path.empty() || has_kind) text += " " + word_or_quoted(slot.path);
  return has_kind ? fmt::format("{} {}", text, slot_kind_name(slot.kind)) : text;
}

// Puts short lists on one line and long ones on a line per item.
std::string list_text(const std::vector<std::string>& items, const std::string& indent) {
  size_t width = indent.size();
  for (const auto& item : items) width += item.size() + 2;
  const std::string separator = width <= 100 ? ", " : ",\n" + indent + "    ";
  std::string text = width <= 100 ? "" : "\n" + indent + "    ";
  for (size_t i = 0; i < items.size(); ++i) text += (i > 0 ? separator : "") + items[i];
  return text;
}

// Groups the outputs as the schema's returns do, so that a list of one tensor is not mistaken for a tensor.
std::string results_text(const Graph& graph, const Node& node) {
  std::string text;
  size_t next = 0;
  const auto take = [&] { return next < node.outputs.size() ? typed_value(graph, node.outputs[next++]) : "missing"; };
  for (const int32_t count : node.returns) {
    if (!text.empty()) text += ", ";
    if (count == -2) {
      text += '_';
    } else if (count == -1) {
      text += take();
    } else {
      text += '[';
      for (int32_t i = 0; i < count; ++i) text += (i > 0 ? ", " : "") + take();
      text += ']';
    }
  }
  while (next < node.outputs.size()) text += (text.empty() ? "" : ", ") + take();
  return text;
}

std::string operands_text(const Node& node) {
  std::string text;
  const auto add = [&](const std::string& operand) { text += (text.empty() ? "" : ", ") + operand; };
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const Operand& operand = node.operands[i];
    const auto operand_string = operand_text(operand, operand_type(node.op, i));
    if (i >= node.op.schema().arguments().size()) {
      add(operand_string);
      continue;
    }
    const auto& argument = node.op.schema().arguments()[i];
    const auto value = default_operand(argument);
    if (!value && !argument.kwarg_only()) {
      add(operand_string);
    } else if (!value || !identical(*value, operand)) {
      add(argument.name() + "=" + operand_string);
    }
  }
  return text;
}

// Returns the note of a node, from the '#' on: the scope, and whatever differs from a plain forward node.
std::string provenance_text(const Node& node) {
  const Provenance& from = node.provenance;
  std::vector<std::string> notes;
  const bool is_plain_scope = is_bare_word(from.scope.str()) && !is_provenance_word(from.scope.str());
  if (!from.scope.empty()) notes.push_back(is_plain_scope ? from.scope.str() : quoted_text(from.scope.str()));
  if (from.grad_of) notes.push_back(fmt::format("grad of %{}", from.grad_of.id));
  // A node that takes part in a gradient is in the backward phase unless its text says otherwise.
  const bool is_backward = from.phase == Phase::kBackward;
  if (is_backward != static_cast<bool>(from.grad_of)) notes.emplace_back(is_backward ? "backward" : "forward");
  if (!from.region.empty()) notes.push_back(region_text(from));
  if (!from.residual_name.empty()) notes.push_back("named " + word_or_quoted(from.residual_name.str()));
  if (!from.origin.empty()) notes.push_back("by " + word_or_quoted(from.origin.str()));
  if (from.own_derivative) notes.emplace_back("own_derivative");
  if (!node.grad_enabled) notes.emplace_back("no_grad");
  std::string text;
  for (const auto& note : notes) text += (text.empty() ? "  # " : " · ") + note;
  return text;
}

std::string line_with_subgraphs(const Graph& graph, const Node& node, const std::string& subgraphs) {
  const auto results = results_text(graph, node);
  return fmt::format("{}{}{}({}){}{}", results, results.empty() ? "" : " = ", node.op.name(), operands_text(node),
                     subgraphs, provenance_text(node));
}

class Printer {
 public:
  std::string print(const Graph& graph, const std::string& indent) {
    print_header(graph, indent);
    walk(
        graph, [&](const Graph&, Value constant) { print_constant(graph, constant, indent); },
        [&](const Graph&, const Node& node) { print_node(graph, node, indent); });
    std::vector<std::string> outputs;
    for (size_t i = 0; i < graph.outputs().size(); ++i) outputs.push_back(output_text(graph, i));
    text_ += fmt::format("{}  return ({})\n", indent, list_text(outputs, indent));
    return std::move(text_);
  }

 private:
  void print_header(const Graph& graph, const std::string& indent) {
    std::vector<std::string> inputs, symbols;
    for (size_t i = 0; i < graph.inputs().size(); ++i) inputs.push_back(input_text(graph, i));
    for (const auto& [symbol, hint] : size_symbols(graph)) symbols.push_back(fmt::format("{}={}", symbol, hint));
    text_ += fmt::format("{}graph {}({})", indent, word_or_quoted(graph.name()), list_text(inputs, indent));
    if (!symbols.empty()) text_ += " where " + list_text(symbols, indent);
    text_ += '\n';
  }

  void print_constant(const Graph& graph, Value constant, const std::string& indent) {
    text_ += fmt::format("{}  {} = constant {}\n", indent, typed_value(graph, constant), num_constants_++);
  }

  void print_node(const Graph& graph, const Node& node, const std::string& indent) {
    std::string subgraphs;
    if (!node.subgraphs.empty()) {
      std::string outer = std::move(text_);
      text_.clear();
      for (const auto& subgraph : node.subgraphs) {
        std::string inner = print(*subgraph, indent + "    ");
        subgraphs += inner;
        text_.clear();
      }
      subgraphs = " {\n" + subgraphs + indent + "  }";
      text_ = std::move(outer);
    }
    text_ += fmt::format("{}  {}\n", indent, line_with_subgraphs(graph, node, subgraphs));
  }

  std::string text_;
  size_t num_constants_ = 0;
};

void add_symbols(std::map<std::string, int64_t>& symbols, const SizeExpr& size) {
  if (!size.is_static()) symbols.merge(size.symbols());
}

}  // namespace

std::map<std::string, int64_t> size_symbols(const Graph& graph) {
  std::map<std::string, int64_t> symbols;
  for (size_t i = 0; i < graph.num_values(); ++i) {
    const auto& meta = graph.meta(Value{static_cast<int32_t>(i)});
    for (const auto& size : meta.sizes) add_symbols(symbols, size);
    for (const auto& stride : meta.strides) add_symbols(symbols, stride);
  }
  for (const Node& node : graph.nodes()) {
    for (const auto& operand : node.operands) {
      if (const auto* size = std::get_if<SizeExpr>(&operand)) add_symbols(symbols, *size);
      if (const auto* sizes = std::get_if<Sizes>(&operand)) {
        for (const auto& size : *sizes) add_symbols(symbols, size);
      }
      if (const auto* number = std::get_if<SizeNumber>(&operand)) symbols.merge(number->symbols());
    }
  }
  return symbols;
}

std::string region_text(const Provenance& provenance) {
  const auto path = word_or_quoted(provenance.region.str());
  const auto marks = provenance.marks.empty() ? "" : " " + provenance.marks.str(region_depth(provenance.region));
  return fmt::format("region {}{}", path, marks);
}

std::string node_line(const Graph& graph, const Node& node) {
  return line_with_subgraphs(graph, node, node.subgraphs.empty() ? "" : " { ... }");
}

std::string nodes_around(const Graph& graph, size_t index, size_t radius) {
  std::string text = fmt::format("graph {}:\n", graph.name());
  const size_t first = index > radius ? index - radius : 0;
  const size_t last = std::min(graph.nodes().size(), index + radius + 1);
  for (size_t i = first; i < last; ++i) {
    text += fmt::format("{} {:>5}  {}\n", i == index ? ">" : " ", i, node_line(graph, graph.nodes()[i]));
  }
  return text;
}

std::string print(const Graph& graph) { return Printer().print(graph, ""); }

}  // namespace diptych::detail

namespace diptych {

std::string Graph::code() const { return detail::print(*this); }

}  // namespace diptych
