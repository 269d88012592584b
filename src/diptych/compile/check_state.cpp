#include "diptych/compile/check_state.h"

#include <ATen/Context.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "diptych/trace/generator_watch.h"

namespace diptych::detail {
namespace {
std::atomic<KeepHostState> keep_state{nullptr};
}

Generators::Generators(const Graph& graph) {
  generators_.push_back(at::globalContext().defaultGenerator(c10::kCPU));
  for (const Node& node : graph.nodes()) {
    for (const Operand& operand : node.operands) {
      const auto* constant = std::get_if<c10::IValue>(&operand);
      if (constant == nullptr || !constant->isGenerator()) continue;
      const at::Generator held = constant->toGenerator();
      if (std::find(generators_.begin(), generators_.end(), held) == generators_.end()) generators_.push_back(held);
    }
  }
}

std::vector<at::Tensor> Generators::states() const {
  std::vector<at::Tensor> states;
  for (at::Generator generator : generators_) {
    const std::lock_guard<std::mutex> lock(generator.mutex());
    states.push_back(generator.get_state());
  }
  return states;
}

void Generators::set(const std::vector<at::Tensor>& states) {
  for (size_t i = 0; i < generators_.size(); ++i) set_state_unseen(generators_[i], states[i]);
}

void set_keep_host_state(KeepHostState keep) { keep_state = keep; }

std::shared_ptr<void> keep_host_state() {
  const KeepHostState keep = keep_state;
  return keep == nullptr ? nullptr : keep();
}

}  // namespace diptych::detail
