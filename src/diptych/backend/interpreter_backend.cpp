#include "diptych/backend/interpreter_backend.h"

#include "diptych/interpreter/hop_rules.h"

namespace diptych::detail {

InterpreterExecutable::InterpreterExecutable(const Graph& graph, const InterpreterOptions& options)
    : program_(graph, options.program) {
  run_options_.profile = options.profile;
}

std::vector<at::Tensor> InterpreterExecutable::run(std::vector<at::Tensor>&& inputs) const {
  return program_.run(std::move(inputs), run_options_);
}

bool InterpreterBackend::supports(const Graph&, const Node& node) const {
  return !node.op.is_hop() || has_interpreter_rule(node.op.hop());
}

std::shared_ptr<const Executable> InterpreterBackend::compile(const Graph& graph) const {
  return std::make_shared<InterpreterExecutable>(graph, options_);
}

Compiler interpreter_compiler(const InterpreterOptions& options) {
  return [options](const Graph& graph) -> std::shared_ptr<const Executable> {
    return std::make_shared<InterpreterExecutable>(graph, options);
  };
}

}  // namespace diptych::detail
