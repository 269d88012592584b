#include "diptych/backends/compile_per_sizes.h"

#include <map>
#include <mutex>

#include "diptych/graph/map_sizes.h"
#include "diptych/interpreter/symbols.h"

namespace diptych::detail {
namespace {

class ExecutablePerSizes final : public Executable {
 public:
  ExecutablePerSizes(const Graph& graph, Compiler compile)
      : graph_(graph), binder_(graph_), compile_(std::move(compile)) {}

  std::vector<at::Tensor> run(std::vector<at::Tensor>&& inputs) const override {
    return executable_for(binder_.observe(inputs))->run(std::move(inputs));
  }

  std::vector<std::shared_ptr<const Executable>> parts() const override {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<const Executable>> parts;
    for (const auto& [sizes, executable] : executables_) {
      if (executable != nullptr) parts.push_back(executable);
    }
    return parts;
  }

 private:
  std::shared_ptr<const Executable> executable_for(const std::vector<int64_t>& sizes) const {
    const std::lock_guard lock(mutex_);
    auto& executable = executables_[sizes];
    if (executable == nullptr) executable = compile_(instantiate(graph_, binder_.solve(sizes)));
    return executable;
  }

  const Graph graph_;
  const SymbolBinder binder_;
  const Compiler compile_;
  mutable std::mutex mutex_;
  mutable std::map<std::vector<int64_t>, std::shared_ptr<const Executable>> executables_;
};

}  // namespace

std::shared_ptr<const Executable> compile_per_sizes(const Graph& graph, Compiler compile) {
  return std::make_shared<ExecutablePerSizes>(graph, std::move(compile));
}

}  // namespace diptych::detail
