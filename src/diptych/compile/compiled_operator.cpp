#include "diptych/compile/compiled_operator.h"

#include <deque>
#include <mutex>

#include "diptych/hops/strides.h"

namespace diptych::detail {
namespace {

struct KnownCompiler {
  std::string backend, draws;
  bool check_kernels;
  Compiler compile;
};

struct KnownCompilers {
  std::mutex mutex;
  std::deque<KnownCompiler> list;  // entries keep their addresses
};

KnownCompilers& known_compilers() {
  static auto* const known = new KnownCompilers;
  return *known;
}

const Compiler& compiler_of_number(int64_t number) {
  auto& known = known_compilers();
  const std::lock_guard lock(known.mutex);
  return known.list.at(static_cast<size_t>(number)).compile;
}

}  // namespace

int64_t compiler_number(const AotOptions& options) {
  auto compile = compiler_of(backend_of(options));
  auto& known = known_compilers();
  const std::lock_guard lock(known.mutex);
  for (size_t i = 0; i < known.list.size(); ++i) {
    const KnownCompiler& one = known.list[i];
    const bool is_same = one.backend == options.backend && one.draws == options.draws;
    if (is_same && one.check_kernels == options.check_kernels) return static_cast<int64_t>(i);
  }
  known.list.push_back({options.backend, options.draws, options.check_kernels, std::move(compile)});
  return static_cast<int64_t>(known.list.size() - 1);
}

const CompiledOperator& CompiledOperator::get() {
  static const auto* const op = new CompiledOperator("compiled(Tensor[] args, Tensor[] free, int compiler)", {"body"});
  return *op;
}

HopFunction CompiledOperator::compile(const Hop& hop) const {
  const Compiler& compile = compiler_of_number(hop.attributes().integer("compiler"));
  const auto body = hop.bodies()[0];
  return [body, executable = compile(*body->graph()), metas = hop.results()](std::vector<at::Tensor>&& operands) {
    const std::vector<at::Tensor> kept = operands;
    for (size_t i = 0; i < operands.size(); ++i) operands[i] = with_strides(operands[i], body->input(i));
    auto results = executable->run(std::move(operands));
    own_results(metas, kept, results);
    return results;
  };
}

}  // namespace diptych::detail
