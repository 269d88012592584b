// Calls of operators whose tensors stand anywhere among their arguments.
#pragma once
#include <string>
#include <vector>

#include "backends/xla/xla_check.h"

namespace diptych::testing {

using Ints = std::vector<int64_t>;
using Tensors = std::vector<at::Tensor>;

/// A list of tensors in which one that is undefined is None.
inline c10::IValue optional_tensors(const Tensors& tensors) {
  c10::List<std::optional<at::Tensor>> list;
  for (const at::Tensor& tensor : tensors) list.push_back(tensor.defined() ? std::optional(tensor) : std::nullopt);
  return list;
}

/// The operands of a call written with IValues, of which tensors and lists of them become inputs of the graph that
/// `builder` (a GraphBuilder or an XlaCheck) makes.
template <class Builder>
std::vector<Operand> operands_of(Builder& builder, const std::vector<c10::IValue>& arguments) {
  std::vector<Operand> operands;
  for (const c10::IValue& argument : arguments) {
    if (argument.isTensor()) {
      operands.emplace_back(builder.input(argument.toTensor()));
    } else if (argument.isTensorList() || argument.isOptionalTensorList()) {
      ValueList values;
      const auto list = argument.toListRef();
      for (const c10::IValue& element : list) {
        values.push_back(element.isTensor() && element.toTensor().defined() ? builder.input(element.toTensor())
                                                                            : Value{});
      }
      operands.emplace_back(values);
    } else {
      operands.emplace_back(argument);
    }
  }
  return operands;
}

/// Expects that a call is lowered and gives what eager gives.
inline void expect_call(const std::string& op, const std::vector<c10::IValue>& arguments) {
  SCOPED_TRACE(op);
  XlaCheck check;
  check.expect_eager(check.nodes(op, operands_of(check, arguments)));
}

/// Expects that a call is left to the interpreter.
inline void expect_not_lowered(const std::string& op, const std::vector<c10::IValue>& arguments) {
  SCOPED_TRACE(op);
  test::GraphBuilder builder;
  const Graph graph = builder.finish(builder.nodes(op, operands_of(builder, arguments)));
  EXPECT_FALSE(detail::XlaBackend().supports(graph, graph.nodes().at(0)));
}

}  // namespace diptych::testing
