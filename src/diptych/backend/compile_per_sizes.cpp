#include "diptych/backend/compile_per_sizes.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "diptych/graph/map_sizes.h"
#include "diptych/interpreter/symbols.h"

namespace diptych::detail {
namespace {

constexpr size_t kMostReturning = 32;

class ExecutablePerSizes final : public Executable {
 public:
  ExecutablePerSizes(const Graph& graph, Compiler compile, SizesPolicy policy)
      : graph_(graph), binder_(graph_), compile_(std::move(compile)), policy_(std::move(policy)) {}

  std::vector<at::Tensor> run(std::vector<at::Tensor>&& inputs) const override {
    return executable_for(binder_.observe(inputs))->run(std::move(inputs));
  }

  std::vector<std::shared_ptr<const Executable>> parts() const override {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<const Executable>> parts;
    for (const auto& [sizes, known] : known_) {
      if (known.executable != nullptr) parts.push_back(known.executable);
    }
    return parts;
  }

 private:
  struct Known {
    std::shared_ptr<const Executable> executable;  // null until the sizes come again
    uint64_t last_use = 0;
  };

  std::shared_ptr<const Executable> executable_for(const std::vector<int64_t>& sizes) const {
    const std::lock_guard lock(mutex_);
    const auto [found, is_new] = known_.try_emplace(sizes);
    Known& known = found->second;
    known.last_use = ++uses_;
    if (is_new && policy_.first != nullptr) {
      forget_oldest();
      return policy_.first;
    }
    if (known.executable == nullptr) known.executable = compile_(instantiate(graph_, binder_.solve(sizes)));
    const auto executable = known.executable;
    if (is_new) forget_oldest();
    return executable;
  }

  void forget_oldest() const {
    if (policy_.limit == 0 || known_.size() <= policy_.limit) return;
    known_.erase(std::min_element(known_.begin(), known_.end(), [](const auto& one, const auto& other) {
      return one.second.last_use < other.second.last_use;
    }));
  }

  const Graph graph_;
  const SymbolBinder binder_;
  const Compiler compile_;
  const SizesPolicy policy_;
  mutable std::mutex mutex_;
  mutable std::map<std::vector<int64_t>, Known> known_;
  mutable uint64_t uses_ = 0;
};

}  // namespace

SizesPolicy once_sizes_return(std::shared_ptr<const Executable> interpreted) {
  return {std::move(interpreted), kMostReturning};
}

std::shared_ptr<const Executable> compile_per_sizes(const Graph& graph, Compiler compile, SizesPolicy policy) {
  return std::make_shared<ExecutablePerSizes>(graph, std::move(compile), std::move(policy));
}

}  // namespace diptych::detail
