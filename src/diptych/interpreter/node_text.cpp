#include "diptych/interpreter/node_text.h"

#include <sstream>

namespace diptych::detail {
namespace {

std::string value_text(Value value) { return value ? fmt::format("%{}", value.id) : "none"; }

template <class List, class Text>
std::string joined(const List& list, Text&& text) {
  std::string result;
  for (const auto& element : list) result += (result.empty() ? "" : ", ") + text(element);
  return result;
}

std::string operand_text(const Operand& operand) {
  if (const auto* value = std::get_if<Value>(&operand)) return value_text(*value);
  if (const auto* list = std::get_if<ValueList>(&operand)) return "[" + joined(*list, value_text) + "]";
  if (const auto* size = std::get_if<SizeExpr>(&operand)) return size->str();
  if (const auto* sizes = std::get_if<Sizes>(&operand)) {
    return "[" + joined(*sizes, [](const SizeExpr& size) { return size.str(); }) + "]";
  }
  std::ostringstream text;
  if (const auto* number = std::get_if<WrappedNumber>(&operand)) {
    text << c10::IValue(number->number);
  } else {
    text << std::get<c10::IValue>(operand);
  }
  return text.str();
}

}  // namespace

std::string node_title(const Node& node) { return joined(node.outputs, value_text) + " = " + node.op.name(); }

std::string node_text(const Graph& graph, const Node& node) {
  const auto outputs = joined(node.outputs, [&](Value value) {
    return value ? fmt::format("%{} : {}", value.id, type_string(graph.meta(value))) : std::string("none");
  });
  auto text = fmt::format("{} = {}({})", outputs, node.op.name(), joined(node.operands, operand_text));
  if (!node.provenance.scope.empty()) text += "  # " + node.provenance.scope.str();
  return text;
}

}  // namespace diptych::detail
