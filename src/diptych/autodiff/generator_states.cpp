#include "diptych/autodiff/generator_states.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <algorithm>
#include <mutex>

#include "diptych/ops/tags.h"
#include "diptych/trace/generator_watch.h"

namespace diptych::detail {
namespace {

at::Tensor get_state(at::Generator& generator) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

}  // namespace

std::vector<at::Generator> generators_of(const Graph& graph) {
  std::vector<at::Generator> found;
  for (const Node& node : graph.nodes()) {
    if (!draws_random(node)) continue;
    at::Generator generator;
    for (const auto& operand : node.operands) {
      const auto* constant = std::get_if<c10::IValue>(&operand);
      if (constant != nullptr && constant->isGenerator()) generator = constant->toGenerator();
    }
    if (!generator.defined()) {
      const c10::Device device =
          node.outputs.empty() || !node.outputs[0] ? c10::kCPU : graph.meta(node.outputs[0]).device;
      generator = at::globalContext().defaultGenerator(device);
    }
    if (std::find(found.begin(), found.end(), generator) == found.end()) found.push_back(generator);
  }
  return found;
}

std::vector<at::Tensor> save_generator_states(const Graph& graph) {
  std::vector<at::Tensor> states;
  for (auto& generator : generators_of(graph)) states.push_back(get_state(generator));
  return states;
}

Rewind::Rewind(std::vector<at::Generator> generators, const std::vector<at::Tensor>& states)
    : generators_(std::move(generators)) {
  for (at::Generator& generator : generators_) now_.push_back(get_state(generator));
  if (states.empty()) return;
  // After all are read: draws of the host may share one generator, as kinds of distributions do.
  for (size_t i = 0; i < generators_.size(); ++i) set_state_unseen(generators_[i], states.at(i));
}

Rewind::~Rewind() {
  for (size_t i = 0; i < generators_.size(); ++i) set_state_unseen(generators_[i], now_[i]);
}

std::vector<size_t> random_nodes(const Graph& graph) {
  std::vector<size_t> indices;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    if (draws_random(graph.nodes()[i]) && graph.nodes()[i].provenance.phase == Phase::kForward) indices.push_back(i);
  }
  return indices;
}

}  // namespace diptych::detail
