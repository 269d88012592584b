// A call by the user, or by autograd for him, seen before functionalization takes it apart.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/DimVector.h>

#include <vector>

#include "diptych/trace/operator_plan.h"
#include "diptych/trace/recorder.h"

namespace diptych::detail {

/// While it lives, `op` is the operator that is called. An operator that is recorded meanwhile and is another view was
/// taken by functionalization, under whatever grad mode holds at the time that functionalization needs it.
/// Assumes: real tensors among the arguments were exchanged for stand-ins; `recorder`, `op` and `plan` outlive it.
class FrontCall {
 public:
  FrontCall(Recorder& recorder, const c10::OperatorHandle& op, const OperatorPlan& plan,
            const torch::jit::Stack& stack);
  ~FrontCall() { recorder_.set_front(outer_); }
  FrontCall(const FrontCall&) = delete;
  FrontCall& operator=(const FrontCall&) = delete;

  /// Notes what the call did, and restores eager's layout of the tensors that it wrote to. `stack` ends with its
  /// results.
  void finish(const torch::jit::Stack& stack);

 private:
  /// A tensor that the operator writes to, and how it was before the call.
  struct Written {
    at::Tensor tensor;
    c10::DimVector strides;
    size_t num_views = 0;
  };

  void note_write(const at::Tensor& tensor);
  void finish_write(const Written& written);

  Recorder& recorder_;
  const OperatorPlan& plan_;
  Recorder::Front outer_;
  std::vector<Written> written_;
};

}  // namespace diptych::detail
