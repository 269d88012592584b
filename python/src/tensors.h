// Lists of tensors that may be absent: None in Python, undefined in C++.
#pragma once
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <optional>
#include <vector>

namespace diptych::python {

/// Tensors from Python. The other direction needs nothing: torch's caster turns an undefined tensor into None.
using MaybeTensors = std::vector<std::optional<at::Tensor>>;

inline std::vector<at::Tensor> tensors_from(MaybeTensors given) {
  std::vector<at::Tensor> tensors;
  for (auto& tensor : given) tensors.push_back(tensor ? std::move(*tensor) : at::Tensor());
  return tensors;
}

}  // namespace diptych::python
