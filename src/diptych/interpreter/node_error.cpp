// What a user sees when a kernel refuses its operands.
#include <c10/util/Exception.h>
#include <c10/util/Type.h>
#include <fmt/format.h>

#include <exception>

#include "diptych/base/error.h"
#include "diptych/graph/print.h"
#include "diptych/interpreter/plan.h"

namespace diptych::detail {
namespace {

std::string context(const Graph& graph, size_t node_index, const std::vector<std::string>& operands) {
  const Node& node = graph.nodes()[node_index];
  auto text =
      fmt::format("[interpreter] node {} of graph '{}' failed: {}", node_index, graph.name(), node_line(graph, node));
  if (operands.empty()) return text;
  text += "\n  operands: ";
  for (size_t i = 0; i < operands.size(); ++i) text += (i == 0 ? "" : ", ") + operands[i];
  return text;
}

}  // namespace

void rethrow_in_node(const Graph& graph, size_t node_index, const std::vector<std::string>& operands) {
  const auto where = context(graph, node_index, operands);
  try {
    throw;
  } catch (const InternalError& error) {
    std::throw_with_nested(InternalError(fmt::format("{}\n  {}", where, error.what())));
  } catch (const UserError& error) {
    std::throw_with_nested(UserError(fmt::format("{}\n  {}", where, error.what())));
  } catch (const c10::Error& error) {
    std::throw_with_nested(UserError(
        fmt::format("{}\n  {}: {}", where, c10::demangle(typeid(error).name()), error.what_without_backtrace())));
  } catch (const std::exception& error) {
    std::throw_with_nested(
        UserError(fmt::format("{}\n  {}: {}", where, c10::demangle(typeid(error).name()), error.what())));
  }
}

}  // namespace diptych::detail
