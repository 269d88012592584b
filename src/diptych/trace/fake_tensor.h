// A tensor without data: the stand-in that flows through the user's function while it is traced.
#pragma once
#include <ATen/core/Tensor.h>

#include "diptych/graph/graph.h"
#include "diptych/ops/shapes.h"

namespace diptych::detail {

class Recorder;

/// The trace id of a placeholder, which is of no trace and may be met in any.
inline constexpr uint64_t kNoTrace = 0;

/// A TensorImpl that autograd and functionalization treat as a dense tensor of its device. It knows the graph value
/// that it stands for and has a meta tensor, on which shapes are computed. Threads: as any tensor; it must not
/// outlive its use in the recorder's trace (checked by `trace_id`).
struct FakeTensorImpl final : c10::TensorImpl {
  /// Looks like `meta`.
  FakeTensorImpl(at::Tensor meta, c10::Device device, uint64_t trace_id, Value value);
  /// Looks as `shape` says; `storage_size` is that of the storage it lies in, in elements.
  FakeTensorImpl(const ResultShape& shape, int64_t storage_size, c10::Device device, uint64_t trace_id, Value value);

  /// A meta tensor that looks like this one; made when first asked for.
  const at::Tensor& meta() const;
  int64_t storage_size() const { return storage_size_; }

  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version_counter,
                                                              bool allow_tensor_metadata_change) const override;
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version_counter,
                                                              bool allow_tensor_metadata_change) const override;

  uint64_t trace_id;
  Value value;

 private:
  mutable at::Tensor meta_;
  int64_t storage_size_;
  const char* tensorimpl_type_name() const override { return "diptych::FakeTensor"; }
};

/// Makes a fake of `meta` on `device` for `value` of the trace.
at::Tensor make_fake(at::Tensor meta, c10::Device device, uint64_t trace_id, Value value);
/// The same for a tensor that looks as `shape` says and lies in a storage of that many elements.
at::Tensor make_fake(const ResultShape& shape, int64_t storage_size, c10::Device device, uint64_t trace_id,
                     Value value);
/// Lets go of those that were made on this thread, when its outermost trace has ended.
void release_fakes();
/// The fake behind `tensor`, which may be wrapped by functionalization; null if there is none.
FakeTensorImpl* as_fake(const at::Tensor& tensor);
/// Whether `tensor` stands for a value of some trace, live or ended.
bool is_stand_in(const at::Tensor& tensor);
/// Has whoever reads the memory of a stand-in, which has none, told so, else he would see a null pointer; and whoever
/// asks for its backend told that of a dense tensor.
void look_dense(const at::Tensor& stand_in);
/// A meta tensor with the sizes, strides, offset and dtype of `tensor`.
at::Tensor meta_like(const at::Tensor& tensor);

/// The elements of a boxed Tensor[] or Tensor?[] argument; a caller may have boxed it as a list of either.
std::vector<std::optional<at::Tensor>> optional_tensors(const c10::IValue& list);

}  // namespace diptych::detail
