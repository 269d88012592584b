// One call of a fused body: its kernel run on tensors.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "diptych/interpreter/lazy_program.h"
#include "diptych/native/call/call_shapes.h"

namespace diptych::detail {

/// A body made ready to be called. Threads: run() may be called from any number at once.
class FusedCall {
 public:
  /// Makes the body's code if nobody has.
  explicit FusedCall(std::shared_ptr<const Graph> body);
  /// Returns the body's outputs. `inputs` are consumed. An output is written over an input that the caller holds alone,
  /// where the kernel reads that input at no other element than the one that it writes.
  /// Errors: what the interpreter throws, and those of check_kernel().
  std::vector<at::Tensor> run(std::vector<at::Tensor>&& inputs, const RunOptions& options) const;

 private:
  std::optional<std::vector<at::Tensor>> run_kernel(const CallShapes& shapes, std::vector<at::Tensor>& inputs,
                                                    bool may_reuse) const;
  std::vector<at::Tensor> run_untimed(std::vector<at::Tensor>&& inputs, const RunOptions& options) const;
  std::vector<at::Tensor> run_checked(const CallShapes& shapes, std::vector<at::Tensor>&& inputs) const;

  std::shared_ptr<const Graph> body_;
  std::shared_ptr<const KernelCode> code_;
  LazyProgram program_;
  BodyShapes shapes_;
};

}  // namespace diptych::detail
