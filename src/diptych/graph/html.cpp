#include "diptych/graph/html.h"

#include <nlohmann/json.hpp>

#include "diptych/base/check.h"
#include "diptych/graph/names.h"
#include "diptych/graph/operand.h"
#include "diptych/graph/print.h"
#include "diptych/graph/print_order.h"

namespace diptych {

using namespace detail;
namespace {

using nlohmann::json;

// The panel that a box is in; the page's script uses the same numbers.
enum Panel { kForward = 0, kMiddle = 1, kBackward = 2 };

std::string key(Panel panel, Value value) { return fmt::format("{}{}", panel == kForward ? "f" : "b", value.id); }

// Drops "aten.", which would only take space in a small box.
std::string short_name(const std::string& name) { return name.starts_with("aten.") ? name.substr(5) : name; }

std::string typed(const Graph& graph, Value value) { return value ? type_string(graph.meta(value)) : "none"; }

std::string declaration(const Graph& graph, Value value, const Slot& slot) {
  const auto number = value ? fmt::format("%{}", value.id) : "none";
  return fmt::format("{} {} : {}  # {}", number, slot.path, typed(graph, value), slot_kind_name(slot.kind));
}

// Collects the boxes of a page; each says which values it uses and makes, and the script draws the edges.
class Page {
 public:
  explicit Page(std::function<bool(const Node&)> is_group = {}) : is_group_(std::move(is_group)) {}

  json boxes = json::array();

  void add_graph(const Graph& graph, Panel panel, bool is_pair) {
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      const Slot& slot = graph.input_slots()[i];
      if (is_pair && panel == kBackward && slot.kind == SlotKind::kResidual) continue;
      add_slot(graph, panel, graph.inputs()[i], slot, "input");
    }
    walk(
        graph, [&](const Graph&, Value constant) { add_constant(graph, panel, constant); },
        [&](const Graph&, const Node& node) { add_node(graph, panel, node); });
    for (size_t i = 0; i < graph.outputs().size(); ++i) {
      const Slot& slot = graph.output_slots()[i];
      if (is_pair && panel == kForward && slot.kind == SlotKind::kResidual) continue;
      if (graph.outputs()[i]) add_slot(graph, panel, graph.outputs()[i], slot, "output");
    }
  }

  void add_residuals(const Graph& forward, const Graph& backward) {
    std::vector<size_t> from, to;
    for (size_t i = 0; i < forward.outputs().size(); ++i) {
      if (forward.output_slots()[i].kind == SlotKind::kResidual) from.push_back(i);
    }
    for (size_t i = 0; i < backward.inputs().size(); ++i) {
      if (backward.input_slots()[i].kind == SlotKind::kResidual) to.push_back(i);
    }
    DIPTYCH_CHECK(
        from.size() == to.size(),
        "[html] the forward graph has {} residuals and the backward graph {}; pass the two graphs of one pair",
        from.size(), to.size());
    for (size_t i = 0; i < from.size(); ++i) add_residual(forward, from[i], backward, to[i]);
  }

 private:
  static json box(Panel panel, std::string_view kind, const std::string& title, const std::string& subtitle,
                  const std::string& line) {
    return {{"p", panel}, {"k", kind},          {"t", title},        {"s", subtitle},
            {"l", line},  {"u", json::array()}, {"m", json::array()}};
  }

  void add_slot(const Graph& graph, Panel panel, Value value, const Slot& slot, std::string_view kind) {
    const auto title = slot.path.empty() ? fmt::format("%{}", value.id) : slot.path;
    json added = box(panel, kind, title, typed(graph, value), declaration(graph, value, slot));
    added[kind == "input" ? "m" : "u"].push_back(key(panel, value));
    added["slot"] = slot_kind_name(slot.kind);
    added["b"] = graph.meta(value).nbytes();
    boxes.push_back(std::move(added));
  }

  void add_constant(const Graph& graph, Panel panel, Value value) {
    json added = box(panel, "constant", "constant", typed(graph, value),
                     fmt::format("%{} : {} = constant", value.id, typed(graph, value)));
    added["m"].push_back(key(panel, value));
    added["b"] = graph.meta(value).nbytes();
    boxes.push_back(std::move(added));
  }

  void add_node(const Graph& graph, Panel panel, const Node& node) {
    std::string types;
    int64_t bytes = 0;
    for (const Value output : node.outputs) {
      types += (types.empty() ? "" : ", ") + typed(graph, output);
      if (output) bytes += graph.meta(output).nbytes();
    }
    json added = box(panel, "node", short_name(node.op.name()), types, node_line(graph, node));
    for_each_operand_value(node, [&](Value value) { added["u"].push_back(key(panel, value)); });
    for (const Value output : node.outputs) {
      if (output) added["m"].push_back(key(panel, output));
    }
    const Provenance& from = node.provenance;
    if (!from.scope.empty()) added["sc"] = from.scope.str();
    if (!from.origin.empty()) added["by"] = from.origin.str();
    if (!from.region.empty()) added["re"] = region_text(from);
    if (!from.residual_name.empty()) added["nm"] = from.residual_name.str();
    if (from.grad_of) added["of"] = fmt::format("%{}", from.grad_of.id);
    for (const auto& subgraph : node.subgraphs) added["sub"].push_back(subgraph->code());
    if (is_group_ && is_group_(node)) add_inner_nodes(node, added);
    added["b"] = bytes;
    boxes.push_back(std::move(added));
  }

  // A group is called as its body is.
  static void add_inner_nodes(const Node& node, json& added) {
    for (const auto& body : node.subgraphs) {
      added["t"] = body->name();
      for (const Node& inner : body->nodes()) {
        added["g"].push_back(
            {short_name(inner.op.name()), typed(*body, inner.outputs.empty() ? Value{} : inner.outputs[0])});
      }
    }
  }

  void add_residual(const Graph& forward, size_t output, const Graph& backward, size_t input) {
    const Value saved = forward.outputs()[output], restored = backward.inputs()[input];
    const Slot& slot = backward.input_slots()[input];
    json added = box(kMiddle, "residual", slot.path, typed(backward, restored), declaration(backward, restored, slot));
    if (saved) added["u"].push_back(key(kForward, saved));
    added["m"].push_back(key(kBackward, restored));
    added["b"] = backward.meta(restored).nbytes();
    boxes.push_back(std::move(added));
  }

  std::function<bool(const Node&)> is_group_;
};

// JSON inside a script element: '<' could end the element early.
std::string script_json(const json& data) {
  const auto text = data.dump(-1, ' ', false, json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string html_escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '&':
        safe += "&amp;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string fill(const std::string& title, const json& data) {
  const std::string_view page(detail::kHtmlPage);
  constexpr std::string_view kTitle = "{{title}}", kData = "{{data}}";
  const auto title_at = page.find(kTitle), data_at = page.find(kData);
  std::string text(page.substr(0, title_at));
  text += html_escaped(title);
  text += page.substr(title_at + kTitle.size(), data_at - title_at - kTitle.size());
  text += script_json(data);
  return text + std::string(page.substr(data_at + kData.size()));
}

}  // namespace

std::string html(const Graph& forward, const Graph& backward, const std::string& title) {
  Page page;
  page.add_graph(forward, kForward, /*is_pair=*/true);
  page.add_residuals(forward, backward);
  page.add_graph(backward, kBackward, /*is_pair=*/true);
  return fill(title,
              {{"title", title}, {"panels", {forward.name(), "residuals", backward.name()}}, {"boxes", page.boxes}});
}

std::string html(const Graph& graph, const std::string& title, const std::function<bool(const Node&)>& is_group) {
  Page page(is_group);
  page.add_graph(graph, kForward, /*is_pair=*/false);
  return fill(title, {{"title", title}, {"panels", {graph.name()}}, {"boxes", page.boxes}});
}

}  // namespace diptych
