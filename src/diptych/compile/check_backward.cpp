#include "diptych/compile/check_backward.h"

#include <ATen/Functions.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstring>

#include "diptych/compile/check.h"
#include "diptych/compile/check_explain.h"

namespace diptych::detail {
namespace {

namespace ag = torch::autograd;

at::Tensor sum_at(const ag::variable_list& gradients, const ag::edge_list& edges, const ag::Edge& edge) {
  at::Tensor total;
  for (size_t i = 0; i < gradients.size() && i < edges.size(); ++i) {
    if (!gradients[i].defined() || !(edges[i] == edge)) continue;
    const at::Tensor gradient = gradients[i].detach();
    total = total.defined() ? at::add(total, gradient) : gradient;
  }
  return total;
}

int64_t version_in_backward(const at::Tensor& tensor) {
  return tensor.defined() && !tensor.is_inference() ? static_cast<int64_t>(tensor._version()) : 0;
}

std::vector<int64_t> versions_in_backward(const std::vector<at::Tensor>& tensors) {
  std::vector<int64_t> versions;
  for (const at::Tensor& tensor : tensors) versions.push_back(version_in_backward(tensor));
  return versions;
}

}  // namespace

void CheckedBackward::run_original(const variable_list& tangents) {
  gradients_.reset();
  written_.clear();
  real_versions_ = versions_in_backward(inputs_.reals);
  const auto before = versions_in_backward(inputs_.copies->copies());
  ag::edge_list roots;
  variable_list given;
  for (size_t i = 0; i < tangents.size(); ++i) {
    if (!tangents[i].defined()) continue;
    if (i >= results_.size() || !results_[i].defined() || !results_[i].requires_grad()) return;
    roots.push_back(ag::impl::gradient_edge(results_[i]));
    given.push_back(tangents[i].detach().clone());
  }
  ag::edge_list wanted;
  for (const ag::Edge& edge : inputs_.copies->edges()) {
    if (edge.is_valid()) wanted.push_back(edge);
  }
  if (roots.empty() || wanted.empty()) return;
  const auto host = keep_host_state();
  Generators generators{Graph()};
  const auto states = generators.states();
  variable_list found;
  try {
    const ShadowGuard guard(*inputs_.shadow, /*lends_memory=*/false);
    found = ag::Engine::get_default_engine().execute(roots, given, /*keep_graph=*/true, /*create_graph=*/false,
                                                     /*accumulate_grad=*/false, wanted);
  } catch (const std::exception&) {
    // Eager may refuse to run, for example if a saved tensor was changed since, where the compiled backward has kept
    // the values.
    generators.set(states);
    inputs_.shadow->take_records();
    inputs_.shadow->take_writes();
    return;
  }
  generators.set(states);
  records_ = inputs_.shadow->take_records();
  writes_ = inputs_.shadow->take_writes();
  for (size_t i = 0; i < before.size(); ++i) {
    if (version_in_backward(inputs_.copies->copies()[i]) != before[i]) written_.push_back(i);
  }
  gradients_.emplace();
  size_t next = 0;
  for (const ag::Edge& edge : inputs_.copies->edges()) {
    gradients_->push_back(edge.is_valid() ? found[next++] : at::Tensor());
  }
}

void CheckedBackward::compare(const variable_list& gradients, const ag::edge_list& edges, const Graph* graph,
                              std::vector<at::Tensor> inputs) {
  if (!gradients_) return;
  for (size_t i = 0; i < inputs_.real_edges.size(); ++i) {
    const ag::Edge& edge = inputs_.real_edges[i];
    const auto first = std::find(inputs_.real_edges.begin(), inputs_.real_edges.end(), edge);
    if (!edge.is_valid() || first != inputs_.real_edges.begin() + static_cast<int64_t>(i)) continue;
    const at::Tensor compiled = sum_at(gradients, edges, edge);
    const at::Tensor& original = (*gradients_)[i];
    // Autograd is free to choose the layout and the strides of a gradient.
    if (original.defined() && compiled.defined() && original.layout() != compiled.layout()) continue;
    const auto plain = [](const at::Tensor& t) { return t.defined() && !t.is_sparse() ? t.contiguous() : t; };
    if (const auto found = compare_tensors(plain(original), plain(compiled), tolerance_)) {
      report(i, *found, graph, std::move(inputs));
    }
  }
  compare_writes();
}

void CheckedBackward::report(size_t primal, const Difference& difference, const Graph* graph,
                             std::vector<at::Tensor>&& inputs) const {
  const std::string where =
      graph == nullptr ? "" : first_differing_node(*graph, std::move(inputs), records_, tolerance_);
  report_difference(name_, "the gradient of " + inputs_.paths[primal], difference, where);
}

void CheckedBackward::compare_writes() const {
  for (const size_t primal : written_) {
    if (version_in_backward(inputs_.reals[primal]) != real_versions_[primal]) continue;
    report_difference(name_, inputs_.paths[primal] + " after the backward",
                      {"its version", "it is written to", "it is left alone"}, "");
  }
  for (const auto& [real, written] : writes_) {
    if (std::memcmp(real.storage().data(), written.const_data_ptr(), written.nbytes()) == 0) continue;
    report_difference(name_, "a tensor that the backward writes to",
                      {"its values (" + ValueSketch::of(real).str() + " compiled)", "written to", "left alone"}, "");
  }
}

}  // namespace diptych::detail
