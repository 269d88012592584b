#include "diptych/interpreter/call_checks.h"

#include <fmt/ranges.h>

#include "diptych/base/check.h"
#include "diptych/base/switches.h"
#include "diptych/interpreter/symbols.h"

namespace diptych::detail {

std::string difference(const TensorMeta& expected, const at::Tensor& tensor,
                       const std::map<std::string, int64_t>& symbols) {
  if (tensor.layout() != at::kStrided || at::isQIntType(tensor.scalar_type())) return "";
  const std::vector<int64_t> sizes = sizes_by(expected.sizes, symbols, tensor);
  const bool is_alike = tensor.scalar_type() == expected.dtype && tensor.device().type() == expected.device.type() &&
                        tensor.sizes() == at::IntArrayRef(sizes);
  if (is_alike) return "";
  return fmt::format("{}[{}] on {}, expected {}[{}] on {}", dtype_name(tensor.scalar_type()),
                     fmt::join(tensor.sizes(), ","), tensor.device().str(), dtype_name(expected.dtype),
                     fmt::join(sizes, ","), expected.device.str());
}

void check_call(const Graph& graph, const std::vector<at::Tensor>& inputs) {
  if (!checks_calls()) return;
  DIPTYCH_ASSERT(inputs.size() == graph.inputs().size(), "graph '{}' takes {} tensors and was called with {}",
                 graph.name(), graph.inputs().size(), inputs.size());
  const SymbolBinder binder(graph);
  std::map<std::string, int64_t> symbols;
  if (binder.has_symbols()) symbols = binder.solve(binder.observe(inputs));
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    const std::string found = difference(graph.meta(graph.inputs()[i]), inputs[i], symbols);
    DIPTYCH_ASSERT(found.empty(), "input {} ({}) of graph '{}' is {}", i, graph.input_slots()[i].path, graph.name(),
                   found);
  }
}

}  // namespace diptych::detail
