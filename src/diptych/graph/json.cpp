#include "diptych/graph/json.h"

#include <algorithm>
#include <set>

#include "diptych/base/check.h"
#include "diptych/graph/names.h"
#include "diptych/graph/number_values.h"
#include "diptych/graph/operand.h"
#include "diptych/graph/parse_operand.h"
#include "diptych/graph/print.h"
#include "diptych/graph/print_order.h"
#include "diptych/graph/verify.h"

namespace diptych::detail {
namespace {

using nlohmann::json;

constexpr int kMaxNesting = 32;

json write_sizes(const Sizes& sizes) {
  json list = json::array();
  for (const auto& size : sizes) {
    if (size.is_static()) {
      list.push_back(size.hint());
    } else {
      list.push_back(size.str());
    }
  }
  return list;
}

Sizes read_sizes(const json& list, const std::map<std::string, int64_t>& symbols) {
  Sizes sizes;
  for (const auto& size : list) {
    sizes.push_back(size.is_string() ? SizeExpr::parse(size.get<std::string>(), symbols)
                                     : SizeExpr(size.get<int64_t>()));
  }
  return sizes;
}

json write_slot(int32_t value, const Slot& slot) {
  return {{"value", value}, {"path", slot.path}, {"kind", slot_kind_name(slot.kind)}};
}

Slot read_slot(const json& slot) {
  const auto name = slot.at("kind").get<std::string>();
  const auto kind = slot_kind_from_name(name);
  DIPTYCH_CHECK(kind.has_value(),
                "[graph file] got the slot kind '{}', expected one that code() prints; check the version of Diptych",
                name);
  return {*kind, slot.at("path").get<std::string>()};
}

json write_provenance(const Provenance& from) {
  json result = json::object();
  if (!from.scope.empty()) result["scope"] = from.scope.str();
  if (!from.origin.empty()) result["by"] = from.origin.str();
  if (from.grad_of) result["grad_of"] = from.grad_of.id;
  if (from.phase == Phase::kBackward) result["phase"] = "backward";
  if (!from.region.empty()) result["region"] = from.region.str();
  if (!from.marks.empty()) result["marks"] = from.marks.str(from.marks.depth());
  if (!from.residual_name.empty()) result["named"] = from.residual_name.str();
  if (from.own_derivative) result["own_derivative"] = true;
  return result;
}

// Returns the operand's text. Refuses an operand whose text can't be read back, such as a generator.
std::string writable_operand(const Node& node, size_t i) {
  const auto text = operand_text(node.operands[i], operand_type(node.op, i));
  const bool is_opaque = text.starts_with("generator(") || text.starts_with("opaque(");
  DIPTYCH_CHECK(!is_opaque, "[graph file] operand {} of {} is {}, which a file cannot hold; capture without it", i,
                node.op.name(), text);
  return text;
}

Operand read_operand(const std::string& text, OperandType type, const OperandScope& scope) {
  TextCursor cursor(text);
  Operand operand = parse_operand(cursor, type, scope);
  if (!cursor.at_end()) cursor.fail("the end of the operand");
  return operand;
}

// Operands of ATen operators are written as a list, since the file holds the schema; those of a higher-order operator
// are written by name, without those that equal their default.
json write_operands(const Node& node) {
  json list = json::array(), named = json::object();
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const auto& argument = node.op.schema().arguments().at(i);
    const auto value = default_operand(argument);
    if (!node.op.is_hop()) {
      list.push_back(writable_operand(node, i));
    } else if (!value || !identical(*value, node.operands[i])) {
      named[argument.name()] = writable_operand(node, i);
    }
  }
  return node.op.is_hop() ? named : list;
}

void read_named_operands(const json& operands, Node& node, const OperandScope& scope) {
  const auto& arguments = node.op.schema().arguments();
  for (const auto& [name, text] : operands.items()) {
    DIPTYCH_CHECK(node.op.schema().argumentIndexWithName(name),
                  "[graph file] got the operand '{}' of {}, expected one of "
                  "{}; check the version of Diptych",
                  name, node.op.name(), node.op.hop().declaration());
  }
  for (const auto& argument : arguments) {
    const auto value = default_operand(argument);
    DIPTYCH_CHECK(value || operands.contains(argument.name()),
                  "[graph file] {} has no operand '{}', which its schema needs; check the version of Diptych",
                  node.op.name(), argument.name());
    node.operands.push_back(
        operands.contains(argument.name())
            ? read_operand(operands.at(argument.name()).get<std::string>(), operand_type(argument), scope)
            : *value);
  }
}

// Before version 3, the operands of a higher-order operator were a list without names: the groups, all of them lists,
// then the attributes, the last of which could be missing. hop.invoke began with an empty group.
void read_unnamed_operands(const json& operands, Node& node, const OperandScope& scope) {
  std::vector<Operand> given;
  for (const auto& text : operands) given.push_back(read_operand(text.get<std::string>(), OperandType{}, scope));
  const auto& arguments = node.op.schema().arguments();
  const auto is_group = [](const Operand& operand) { return std::holds_alternative<ValueList>(operand); };
  const auto num_lists = static_cast<size_t>(std::count_if(given.begin(), given.end(), is_group));
  const auto* first = given.empty() ? nullptr : std::get_if<ValueList>(&given[0]);
  if (num_lists == node.op.hop().num_groups() + 1 && first != nullptr && first->empty()) given.erase(given.begin());
  DIPTYCH_CHECK(given.size() <= arguments.size(), "[graph file] {} has {} operands, expected {}", node.op.name(),
                given.size(), node.op.hop().declaration());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto value = i < given.size() ? std::optional(given[i]) : default_operand(arguments[i]);
    DIPTYCH_CHECK(value, "[graph file] {} has no operand '{}', which its schema needs; check the version of Diptych",
                  node.op.name(), arguments[i].name());
    const auto* list = std::get_if<ValueList>(&*value);
    const bool is_single = operand_type(arguments[i]).kind == OperandKind::kTensor;
    node.operands.push_back(list != nullptr && is_single && list->size() == 1 ? Operand((*list)[0]) : *value);
  }
}

}  // namespace

json write_meta(const TensorMeta& meta) {
  json result{{"dtype", dtype_name(meta.dtype)},
              {"sizes", write_sizes(meta.sizes)},
              {"strides", write_sizes(meta.strides)},
              {"device", meta.device.str()}};
  if (meta.requires_grad) result["requires_grad"] = true;
  return result;
}

TensorMeta read_meta(const json& meta, const std::map<std::string, int64_t>& symbols) {
  TensorMeta result;
  result.dtype = dtype_from_name(meta.at("dtype").get<std::string>());
  result.sizes = read_sizes(meta.at("sizes"), symbols);
  result.strides = read_sizes(meta.at("strides"), symbols);
  result.device = c10::Device(meta.at("device").get<std::string>());
  result.requires_grad = meta.value("requires_grad", false);
  return result;
}

json JsonWriter::write_node(const Graph& graph, const Node& node) {
  const auto name = node.op.name();
  if (!node.op.is_hop()) operators_.emplace(name, c10::str(node.op.schema()));
  json result{{"op", name}, {"operands", write_operands(node)}, {"results", json::array()}};
  for (const Value output : node.outputs) {
    if (!output) {
      result["results"].push_back(nullptr);
      continue;
    }
    json value = write_meta(graph.meta(output));
    value["value"] = output.id;
    result["results"].push_back(std::move(value));
  }
  result["returns"] = std::vector<int32_t>(node.returns.begin(), node.returns.end());
  if (auto from = write_provenance(node.provenance); !from.empty()) result["from"] = std::move(from);
  if (!node.grad_enabled) result["no_grad"] = true;
  for (const auto& subgraph : node.subgraphs) result["subgraphs"].push_back(write(*subgraph));
  return result;
}

json parse_whole_numbers(std::string_view text, std::string_view what) {
  return json::parse(text, [&](int, json::parse_event_t, const json& value) {
    DIPTYCH_CHECK(!value.is_number_float(), "[file] {} holds the number {}, expected 64-bit integers; save it again",
                  what, value.dump());
    return true;
  });
}

json JsonWriter::write(const Graph& graph) {
  json result{{"name", graph.name()},
              {"symbols", size_symbols(graph)},
              {"inputs", json::array()},
              {"body", json::array()},
              {"outputs", json::array()}};
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    json input = write_meta(graph.meta(graph.inputs()[i]));
    input.update(write_slot(graph.inputs()[i].id, graph.input_slots()[i]));
    result["inputs"].push_back(std::move(input));
  }
  walk(
      graph,
      [&](const Graph&, Value constant) {
        json value = write_meta(graph.meta(constant));
        value["value"] = constant.id;
        value["constant"] = constants_.size();
        constants_.push_back(graph.constants()[graph.info(constant).index]);
        result["body"].push_back(std::move(value));
      },
      [&](const Graph&, const Node& node) { result["body"].push_back(write_node(graph, node)); });
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    result["outputs"].push_back(write_slot(graph.outputs()[i].id, graph.output_slots()[i]));
  }
  return result;
}

JsonReader::JsonReader(const json& operators, const std::vector<at::Tensor>& constants, FindHop find_hop)
    : constants_(constants), find_hop_(find_hop) {
  for (const auto& [name, schema] : operators.items()) {
    const Op op = Op::find(name);
    const auto here = c10::str(op.schema());
    DIPTYCH_CHECK(
        here == schema.get<std::string>(),
        "[graph file] {} was saved as '{}', but is '{}' in this LibTorch; load the file with the LibTorch that "
        "saved it, or capture again",
        name, schema.get<std::string>(), here);
    operators_.emplace(name, op);
  }
}

Op JsonReader::find_op(const std::string& name) const {
  if (name.starts_with("hop.")) {
    const HopSchema* hop = find_hop_ == nullptr ? nullptr : find_hop_(std::string_view(name).substr(4));
    DIPTYCH_CHECK(hop != nullptr, "[graph file] got the unknown higher-order operator '{}'; {}", name,
                  find_hop_ ? "check the version of Diptych" : "pass a find_hop function");
    return Op(hop);
  }
  const auto found = operators_.find(name);
  DIPTYCH_CHECK(found != operators_.end(),
                "[graph file] got the operator '{}', which is not in the file's list of schemas; save the graph again",
                name);
  return found->second;
}

namespace {

// Reads one graph with the same checks as parse(); errors name places by the numbers of values.
class GraphReader {
 public:
  explicit GraphReader(const json& graph) {
    scope_.symbols = graph.at("symbols").get<std::map<std::string, int64_t>>();
    scope_.is_defined = [this](int32_t number) { return defined_.count(number) > 0; };
    parsed_.name = graph.at("name").get<std::string>();
  }

  void read_input(const json& input) {
    const int32_t number = read_number(input.at("value"));
    DIPTYCH_CHECK(defined_.insert(number).second, "[graph file] %{} is defined twice", number);
    parsed_.add_input(number, read_meta(input, scope_.symbols), read_slot(input));
  }

  void read_constant(const json& constant, const std::vector<at::Tensor>& constants) {
    const auto index = constant.at("constant").get<size_t>();
    DIPTYCH_CHECK(index < constants.size(),
                  "[graph file] got constant {}, but there are {}; pass all_constants() of the graph", index,
                  constants.size());
    const auto given = TensorMeta::of(constants[index]);
    const auto meta = read_meta(constant, scope_.symbols);
    DIPTYCH_CHECK(given.dtype == meta.dtype && given.size_hints() == meta.size_hints(),
                  "[graph file] constant {} was given as {}, expected {}", index, type_string(given),
                  type_string(meta));
    const int32_t number = read_number(constant.at("value"));
    define(number);
    parsed_.add_constant(number, constants[index], meta);
  }

  void read_node(const json& json_node, Op op, std::vector<std::shared_ptr<const Graph>> subgraphs) {
    ParsedNode result;
    Node node{std::move(op), {}, {}, {}, std::move(subgraphs), {}, !json_node.value("no_grad", false)};
    for (const auto returned : json_node.at("returns").get<std::vector<int32_t>>()) node.returns.push_back(returned);
    read_operands(json_node.at("operands"), node);
    read_provenance(json_node.value("from", json::object()), node.provenance);
    for (const auto& value : json_node.at("results")) {
      result.numbers.push_back(value.is_null() ? -1 : read_number(value.at("value")));
      result.metas.push_back(value.is_null() ? std::nullopt : std::optional(read_meta(value, scope_.symbols)));
    }
    for_each_operand_value(node, [&](Value used) {
      for (const int32_t number : result.numbers) {
        DIPTYCH_CHECK(number < 0 || used.id < number, "[graph file] %{} uses %{}, which is not defined before it",
                      number, used.id);
      }
    });
    for (const int32_t number : result.numbers) {
      if (number >= 0) define(number);
    }
    result.node = std::move(node);
    parsed_.add_node(std::move(result));
  }

  Graph finish(const json& outputs) {
    for (const auto& output : outputs) {
      const auto number = output.at("value").get<int32_t>();
      DIPTYCH_CHECK(number == -1 || defined_.count(number) > 0, "[graph file] got the output %{}, which is not defined",
                    number);
      parsed_.outputs.push_back(number);
      parsed_.output_slots.push_back(read_slot(output));
    }
    for (const auto& [node, number, place] : parsed_.grad_of) {
      DIPTYCH_CHECK(defined_.count(number) > 0, "[graph file] got the gradient of %{}, which is not defined", number);
    }
    Graph graph = parsed_.build();
    const auto problem = find_problem(graph);
    DIPTYCH_CHECK(!problem, "[graph file] graph '{}', node {}: {}", graph.name(), problem->node.value_or(0),
                  problem->what);
    return graph;
  }

 private:
  void read_operands(const json& operands, Node& node) const {
    if (node.op.is_hop()) {
      return operands.is_object() ? read_named_operands(operands, node, scope_)
                                  : read_unnamed_operands(operands, node, scope_);
    }
    for (size_t i = 0; i < operands.size(); ++i) {
      node.operands.push_back(read_operand(operands[i].get<std::string>(), operand_type(node.op, i), scope_));
    }
  }

  static int32_t read_number(const json& number) {
    const auto value = number.get<int64_t>();
    DIPTYCH_CHECK(value >= 0 && value <= INT32_MAX, "[graph file] got the value number {}, expected one from 0", value);
    return static_cast<int32_t>(value);
  }

  void define(int32_t number) {
    DIPTYCH_CHECK(defined_.insert(number).second && parsed_.define(number),
                  "[graph file] %{} is defined twice or out of order", number);
  }

  void read_provenance(const json& from, Provenance& provenance) {
    provenance.scope = InternedString(from.value("scope", ""));
    provenance.origin = InternedString(from.value("by", ""));
    provenance.phase = from.value("phase", "forward") == "backward" ? Phase::kBackward : Phase::kForward;
    provenance.region = InternedString(from.value("region", ""));
    provenance.residual_name = InternedString(from.value("named", ""));
    provenance.own_derivative = from.value("own_derivative", false);
    const auto text = from.value("marks", "");
    const auto marks = RegionMarks::parse(text);
    DIPTYCH_CHECK(marks.has_value(), "[graph file] got the marks '{}', expected those that code() prints", text);
    provenance.marks = *marks;
    if (from.contains("grad_of")) parsed_.grad_of.emplace_back(parsed_.num_nodes(), read_number(from.at("grad_of")), 0);
  }

  OperandScope scope_;
  std::set<int32_t> defined_;
  NumberedGraph parsed_;
};

}  // namespace

Graph JsonReader::read(const json& graph, int depth) {
  DIPTYCH_CHECK(depth <= kMaxNesting, "[graph file] got graphs nested deeper than {}", kMaxNesting);
  GraphReader reader(graph);
  for (const auto& input : graph.at("inputs")) reader.read_input(input);
  for (const auto& step : graph.at("body")) {
    if (step.contains("constant")) {
      reader.read_constant(step, constants_);
      continue;
    }
    std::vector<std::shared_ptr<const Graph>> subgraphs;
    if (step.contains("subgraphs")) {
      for (const auto& subgraph : step.at("subgraphs")) {
        subgraphs.push_back(std::make_shared<const Graph>(read(subgraph, depth + 1)));
      }
    }
    reader.read_node(step, find_op(step.at("op").get<std::string>()), std::move(subgraphs));
  }
  return reader.finish(graph.at("outputs"));
}

}  // namespace diptych::detail
