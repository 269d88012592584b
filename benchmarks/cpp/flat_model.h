// A benchmark model as the flat function that JointCapture takes.
#pragma once
#include <string>
#include <vector>

#include "diptych/autodiff/joint_capture.h"
#include "models.h"

namespace diptych::bench {

/// A model's function on one list: parameters, then buffers, then data.
struct FlatModel {
  FlatFunction function;
  Tensors arguments;
  std::vector<std::string> paths;

  explicit FlatModel(const Model& model) {
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

}  // namespace diptych::bench
