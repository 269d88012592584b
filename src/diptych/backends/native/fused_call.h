// One call of a fused body: its kernel run on tensors.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "diptych/backends/native/kernel_code.h"
#include "diptych/interpreter/lazy_program.h"
#include "diptych/interpreter/reuse.h"

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
  struct Slot {
    at::ScalarType dtype;
    std::vector<int64_t> sizes, strides;
    bool is_empty, is_dense;
  };
  struct Overwrite {
    size_t input;
    Reuse needs;
  };
  enum class Fit : uint8_t { kExact, kOtherStrides, kNone };

  static Slot slot_of(const TensorMeta& meta);
  static Fit fit(const Slot& slot, const at::Tensor& tensor);
  bool make_fit(std::vector<at::Tensor>& inputs) const;
  std::optional<std::vector<at::Tensor>> run_kernel(std::vector<at::Tensor>& inputs, bool may_reuse) const;
  std::vector<at::Tensor> run_untimed(std::vector<at::Tensor>&& inputs, const RunOptions& options) const;
  std::vector<at::Tensor> run_checked(std::vector<at::Tensor>&& inputs) const;
  void find_overwrites();

  std::shared_ptr<const Graph> body_;
  std::shared_ptr<const KernelCode> code_;
  LazyProgram program_;
  std::vector<Slot> inputs_, outputs_;
  std::vector<std::vector<Overwrite>> overwrites_;  // by output
  bool is_empty_ = false;                           // no output has an element
};

}  // namespace diptych::detail
