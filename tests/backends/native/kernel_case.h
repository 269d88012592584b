// Running the text of a kernel on tensors.
#pragma once
#include <string>
#include <vector>

#include "backends/native/parse_kernel.h"
#include "diptych/native/kernel/evaluate.h"
#include "testing/tensors.h"

namespace diptych::testing {

/// Evaluates a kernel; the outputs are written in place.
inline void run_kernel(const std::string& text, const Tensors& inputs, const Tensors& outputs,
                       const std::vector<int64_t>& symbols = {}) {
  const auto memory = [](const Tensors& tensors) {
    std::vector<detail::KernelMemory> all;
    for (const at::Tensor& tensor : tensors) all.push_back(detail::KernelMemory::of(tensor));
    return all;
  };
  detail::evaluate(detail::parse_kernel(text), memory(inputs), memory(outputs), symbols);
}

}  // namespace diptych::testing
