// A tensor without data: the stand-in that flows through the user's function while it is traced.
#pragma once
#include <ATen/core/Tensor.h>

#include "diptych/graph/graph.h"

namespace diptych::detail {

class Recorder;

/// A TensorImpl that autograd and functionalization treat as a dense tensor of its device. It knows the graph value
/// that it stands for and holds a meta tensor, on which shapes are computed. Threads: as any tensor; it must not
/// outlive its use in the recorder's trace (checked by `trace_id`).
struct FakeTensorImpl final : c10::TensorImpl {
  FakeTensorImpl(at::Tensor meta, c10::Device device, uint64_t trace_id, Value value);

  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version_counter,
                                                              bool allow_tensor_metadata_change) const override;
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version_counter,
                                                              bool allow_tensor_metadata_change) const override;

  at::Tensor meta;
  uint64_t trace_id;
  Value value;

 private:
  const char* tensorimpl_type_name() const override { return "diptych::FakeTensor"; }
};

/// Makes a fake of `meta` on `device` for `value` of the trace.
at::Tensor make_fake(at::Tensor meta, c10::Device device, uint64_t trace_id, Value value);
/// The fake behind `tensor`, which may be wrapped by functionalization; null if there is none.
FakeTensorImpl* as_fake(const at::Tensor& tensor);
/// Whether `tensor` stands for a value of some trace, live or ended.
bool is_stand_in(const at::Tensor& tensor);
/// A meta tensor with the sizes, strides, offset and dtype of `tensor`.
at::Tensor meta_like(const at::Tensor& tensor);

/// The elements of a boxed Tensor[] or Tensor?[] argument; a caller may have boxed it as a list of either.
std::vector<std::optional<at::Tensor>> optional_tensors(const c10::IValue& list);

}  // namespace diptych::detail
