#include "diptych/graph/graph.h"

#include <fmt/format.h>
#include <pybind11/operators.h>
#include <pybind11/stl.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings.h"
#include "diptych/backends/stablehlo.h"
#include "diptych/graph/html.h"
#include "diptych/graph/identical.h"
#include "diptych/graph/names.h"
#include "diptych/graph/parse.h"
#include "diptych/graph/rewrite.h"
#include "diptych/graph/verify.h"
#include "diptych/graph/with_slots.h"
#include "diptych/hops/builtin_hops.h"
#include "diptych/interpreter/program.h"
#include "function.h"
#include "tensors.h"

namespace diptych::python {

using namespace detail;
namespace {

py::object to_python(const SizeExpr& size) { return size.is_static() ? py::cast(size.hint()) : py::cast(size); }

py::object to_python(const Sizes& sizes) {
  py::list list;
  for (const SizeExpr& size : sizes) list.append(to_python(size));
  return py::tuple(list);
}

// Returns a constant as Python has it. ATen stores a dtype, a layout or a memory format as a number; the schema tells
// which it is.
py::object constant_to_python(const c10::IValue& value, const c10::Argument* argument) {
  if (argument != nullptr && value.isInt()) {
    const c10::Type* type = argument->real_type().get();
    if (const auto* optional = type->castRaw<c10::OptionalType>()) type = optional->getElementType().get();
    const auto number = value.toInt();
    switch (type->kind()) {
      case c10::TypeKind::ScalarTypeType:
        return py::cast(static_cast<at::ScalarType>(number));
      case c10::TypeKind::LayoutType:
        return py::cast(static_cast<at::Layout>(number));
      case c10::TypeKind::MemoryFormatType:
        return py::cast(static_cast<at::MemoryFormat>(number));
      default:
        break;
    }
  }
  return torch::jit::toPyObject(value);
}

py::object operand_to_python(const Node& node, size_t index) {
  const auto value = [](diptych::Value v) -> py::object { return v ? py::cast(v) : py::none(); };
  const auto visit = [&](const auto& operand) -> py::object {
    using T = std::decay_t<decltype(operand)>;
    if constexpr (std::is_same_v<T, diptych::Value>) {
      return value(operand);
    } else if constexpr (std::is_same_v<T, ValueList>) {
      py::list list;
      for (const diptych::Value element : operand) list.append(value(element));
      return list;
    } else if constexpr (std::is_same_v<T, WrappedNumber>) {
      return torch::jit::toPyObject(c10::IValue(operand.number));
    } else if constexpr (std::is_same_v<T, SizeExpr>) {
      return to_python(operand);
    } else if constexpr (std::is_same_v<T, Sizes>) {
      return to_python(operand);
    } else if constexpr (std::is_same_v<T, SizeNumber>) {
      return py::cast(operand);
    } else {
      return constant_to_python(operand, node.op.is_hop() ? nullptr : &node.op.schema().arguments()[index]);
    }
  };
  return std::visit(visit, node.operands[index]);
}

std::vector<py::object> operands_to_python(const Node& node) {
  std::vector<py::object> operands;
  for (size_t i = 0; i < node.operands.size(); ++i) operands.push_back(operand_to_python(node, i));
  return operands;
}

std::vector<std::optional<diptych::Value>> defined_or_none(c10::ArrayRef<diptych::Value> values) {
  std::vector<std::optional<diptych::Value>> list;
  for (const diptych::Value value : values) list.push_back(value ? std::optional(value) : std::nullopt);
  return list;
}

std::shared_ptr<Program> program_of_node(const Graph& graph, size_t index) {
  const Node& node = graph.nodes().at(index);
  std::vector<diptych::Value> operands;
  std::vector<Slot> operand_slots, result_slots;
  for_each_operand_value(node, [&](diptych::Value value) {
    operand_slots.push_back({SlotKind::kArgument, fmt::format("operand.{}", operands.size())});
    operands.push_back(value);
  });
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    result_slots.push_back({SlotKind::kOutput, fmt::format("result.{}", i)});
  }
  const std::vector<diptych::Value> results(node.outputs.begin(), node.outputs.end());
  return std::make_shared<Program>(
      extract(graph, node.op.name(), operands, operand_slots, results, result_slots, {index}));
}

void bind_node(py::module_& module) {
  py::class_<diptych::Value>(module, "Value", "A tensor in a graph, by number.")
      .def_readonly("id", &diptych::Value::id, "Its number, which code() prints after %; starts at 1.")
      .def("__repr__", [](diptych::Value value) { return fmt::format("%{}", value.id); })
      .def("__hash__", [](diptych::Value value) { return value.id; })
      .def(py::self == py::self);
  py::class_<SizeNumber>(module, "DynamicNumber", "An integer in an operand that depends on dynamic sizes.")
      .def_property_readonly("hint", &SizeNumber::hint, "Its value in the trace.")
      .def("__repr__", &SizeNumber::str)
      .def("__eq__", [](const SizeNumber& a, const SizeNumber& b) { return a == b; });
  py::class_<SizeExpr>(module, "DynamicSize",
                       "A size that is an expression in symbols; hint is its value in the trace.")
      .def_property_readonly("hint", &SizeExpr::hint, "Its value in the trace.")
      .def("__repr__", &SizeExpr::str)
      .def("__eq__", [](const SizeExpr& a, const SizeExpr& b) { return a == b; });
  py::class_<TensorMeta>(module, "TensorMeta", "The metadata of a tensor in a graph.")
      .def_readonly("dtype", &TensorMeta::dtype, "Its torch.dtype.")
      .def_readonly("device", &TensorMeta::device, "Its torch.device.")
      .def_readonly("requires_grad", &TensorMeta::requires_grad, "Whether it requires grad.")
      .def_property_readonly(
          "shape", [](const TensorMeta& meta) { return to_python(meta.sizes); },
          "Its sizes in elements: ints, or DynamicSizes.")
      .def_property_readonly(
          "stride", [](const TensorMeta& meta) { return to_python(meta.strides); },
          "Its strides in elements: ints, or DynamicSizes.")
      .def("__repr__", &type_string);
  py::class_<Node>(module, "Node", "An operator applied to operands.")
      .def_property_readonly(
          "name", [](const Node& node) { return node.op.name(); },
          "The operator, such as \"aten.add.Tensor\", or the higher-order one, such as \"scan\".")
      .def_property_readonly("operands", &operands_to_python, "Values, lists of them, and constants.")
      .def_property_readonly(
          "outputs", [](const Node& node) { return defined_or_none(node.outputs); },
          "Its results; None for an undefined tensor.")
      .def_property_readonly(
          "returns", [](const Node& node) { return std::vector<int>(node.returns.begin(), node.returns.end()); },
          "For each return of the operator: -1 for a tensor, n for a list of n tensors, -2 for anything else.")
      .def_property_readonly(
          "is_higher_order", [](const Node& node) { return node.op.is_hop(); },
          "Whether its operator owns subgraphs, as scan does.")
      .def_property_readonly(
          "subgraphs",
          [](const Node& node) {
            std::vector<Graph> graphs;
            for (const auto& graph : node.subgraphs) graphs.push_back(*graph);
            return graphs;
          },
          "The bodies of a higher-order operator.")
      .def_property_readonly(
          "scope", [](const Node& node) { return std::string(node.provenance.scope.str()); },
          "The scope of the user's code that called it.")
      .def_property_readonly(
          "is_backward", [](const Node& node) { return node.provenance.phase == Phase::kBackward; },
          "Whether it was recorded in the backward.");
}

}  // namespace

void bind_graph(py::module_& module) {
  bind_node(module);
  py::class_<Slot>(module, "Slot", "The name of one input or output of a graph.")
      .def_readonly("path", &Slot::path, "Its name in the user's code, such as \"params.w\".")
      .def_property_readonly(
          "kind", [](const Slot& slot) { return std::string(slot_kind_name(slot.kind)); },
          "argument, free_variable, output, mutated, residual, tangent or gradient.")
      .def("__repr__", [](const Slot& slot) { return fmt::format("{} {}", slot.path, slot_kind_name(slot.kind)); });
  py::class_<Graph>(module, "Graph", "A straight line of nodes in execution order.")
      .def_property_readonly("name", &Graph::name, "The name that code() prints.")
      .def_property_readonly("inputs", &Graph::inputs, "Its input values.")
      .def_property_readonly("input_slots", &Graph::input_slots, "The slot of each input.")
      .def_property_readonly(
          "outputs", [](const Graph& graph) { return defined_or_none(graph.outputs()); },
          "Its output values; None for an absent one.")
      .def_property_readonly("output_slots", &Graph::output_slots, "The slot of each output.")
      .def_property_readonly("nodes", &Graph::nodes, "In execution order.")
      .def_property_readonly("constants", &Graph::constants, "The tensors that it holds.")
      .def("meta", &Graph::meta, "The metadata of a value.")
      .def(
          "constant_of",
          [](const Graph& graph, diptych::Value value) -> std::optional<at::Tensor> {
            const ValueInfo& info = graph.info(value);
            if (info.kind != ValueInfo::Kind::kConstant) return std::nullopt;
            return graph.constants()[info.index];
          },
          "The tensor that a value is, if it is a constant.")
      .def("code", &Graph::code, "Its text, with types, which parse() reads back.")
      .def("table", &Graph::table, "One row per node in aligned columns.")
      .def(
          "html", [](const Graph& graph) { return html(graph, graph.name()); }, "One HTML page that draws the graph.")
      .def("stablehlo", py::overload_cast<const Graph&>(&stablehlo), py::call_guard<py::gil_scoped_release>(),
           R"(Its StableHLO module, as text.

main takes one tensor per input slot, then the constants, and returns one per output slot that is not empty. Errors:
UserError names a node without a lowering or that draws random numbers, and a dtype or size that no module holds.)")
      .def("verify", &verify, "Raises InternalError if the graph is inconsistent.")
      .def("__str__", &Graph::code)
      .def("__repr__",
           [](const Graph& graph) { return fmt::format("<Graph {} of {} nodes>", graph.name(), graph.nodes().size()); })
      .def("__eq__", &identical);
  module.def(
      "parse",
      [](const std::string& text, const std::vector<at::Tensor>& constants) {
        return parse(text, constants, find_hop);
      },
      py::arg("text"), py::arg("constants") = std::vector<at::Tensor>(), R"(The inverse of Graph.code().

constants: the tensors that the text's constants stand for, in their order.
Errors: UserError names the line and the column of what can't be read, or an operator that is not there.)");
  module.def("dtype_from_name", &dtype_from_name, py::arg("name"),
             "The dtype of a name such as f32 or i64, as code() prints them.");
  module.def("with_slots_of", &with_slots_of, py::arg("graph"), py::arg("like"), py::arg("constants"),
             "The graph with the input and output slots of another one, of which it is a rewrite.");
  module.def("program_of_node", &program_of_node, py::arg("graph"), py::arg("index"),
             "A program of one node, which takes the node's tensor operands and returns its results.");
  py::class_<Program, std::shared_ptr<Program>>(module, "Program", "A graph that the interpreter has prepared to run.")
      .def(py::init([](const Graph& graph) { return std::make_shared<Program>(graph); }))
      .def(
          "__call__",
          [](const Program& program, MaybeTensors inputs, bool differentiable) {
            auto tensors = tensors_from(std::move(inputs));
            return without_gil([&] { return program.run(std::move(tensors), {.differentiable = differentiable}); });
          },
          py::arg("inputs"), py::kw_only(), py::arg("differentiable") = false,
          "Runs the graph on one tensor per input; None for an absent one.");
}

}  // namespace diptych::python
