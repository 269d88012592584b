#include "diptych/interpreter/evaluate.h"

#include "diptych/interpreter/program.h"
#include "diptych/interpreter/run_guards.h"

namespace diptych::detail {

std::vector<at::Tensor> evaluate(const Graph& graph) {
  const RunBelowAutograd guard;
  return Program(graph).run({});
}

}  // namespace diptych::detail
