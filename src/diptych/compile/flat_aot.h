// A compiled function on flat lists of tensors, with its cache.
#pragma once
#include <vector>

#include "diptych/compile/cache.h"

namespace diptych::detail {

/// Captures a flat function when the guards of no earlier capture hold, and runs the fitting capture.
/// Threads: call() from any number at once.
class FlatAot {
 public:
  FlatAot(FlatFunction function, std::vector<std::string> paths, AotOptions options);
  std::vector<at::Tensor> call(const std::vector<at::Tensor>& arguments);

 private:
  std::vector<at::Tensor> in_eager(const std::string& why, const std::vector<at::Tensor>& arguments);

  FlatFunction function_;
  std::vector<std::string> paths_;
  AotOptions options_;
  Cache cache_;
};

}  // namespace diptych::detail
