// A benchmark model as the flat function that JointCapture takes, and its joint graph.
#pragma once
#include <stdexcept>
#include <string>
#include <vector>

#include "diptych/autodiff/joint_capture.h"
#include "models.h"

namespace diptych::bench {

using namespace detail;

/// A model's function on one list: parameters, then buffers, then data.
struct FlatModel {
  FlatFunction function;
  Tensors arguments;
  std::vector<std::string> paths;
  size_t num_params;

  explicit FlatModel(const Model& model) : num_params(model.params.size()) {
    append("params.", model.params);
    append("buffers.", model.buffers);
    append("data.", model.data);
    const auto params = static_cast<std::ptrdiff_t>(model.params.size());
    const auto given = params + static_cast<std::ptrdiff_t>(model.buffers.size());
    function = [loss = model.loss, params, given](const Tensors& all) {
      const auto begin = all.begin();
      FlatResult result{loss({begin, begin + params}, {begin + params, begin + given}, {begin + given, all.end()}), {}};
      for (size_t i = 0; i < result.tensors.size(); ++i) result.paths.push_back(std::to_string(i));
      return result;
    };
  }

 private:
  void append(const std::string& prefix, const Tensors& tensors) {
    for (size_t i = 0; i < tensors.size(); ++i) paths.push_back(prefix + std::to_string(i));
    arguments.insert(arguments.end(), tensors.begin(), tensors.end());
  }
};

/// Errors: std::runtime_error if one of `gradients` is none, so that less was captured than a training step needs.
inline void check_gradients(c10::ArrayRef<Value> gradients) {
  for (const Value gradient : gradients) {
    if (!gradient) throw std::runtime_error("the graph lacks a parameter's gradient");
  }
}

/// Captures the joint graph of `model`. Errors: as check_gradients.
inline Joint joint_of(const FlatModel& model) {
  JointCapture capture(model.function, model.arguments, model.paths);
  Joint joint = capture.take_joint();
  const c10::ArrayRef<Value> outputs = joint.graph.outputs();
  check_gradients(outputs.slice(joint.layout.num_forward_outputs(), model.num_params));
  return joint;
}

}  // namespace diptych::bench
