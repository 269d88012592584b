// The stand-in for a tensor: it has no data, and flows through the user's function while the function is traced.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/UndefinedTensorImpl.h>

#include <vector>

#include "diptych/graph/graph.h"
#include "diptych/ops/shapes.h"

namespace diptych::detail {

class Recorder;

/// The trace id of a placeholder, which belongs to no trace and may be used in any.
inline constexpr uint64_t kNoTrace = 0;

/// A TensorImpl that autograd and functionalization treat as a dense tensor of its device. It knows the graph value
/// that it stands for, and has a meta tensor on which shapes are computed. Threads: as any tensor. It must not be used
/// after its trace, which `trace_id` checks.
struct FakeTensorImpl final : c10::TensorImpl {
  /// Has the sizes, strides, offset and dtype of `meta`.
  FakeTensorImpl(at::Tensor meta, c10::Device device, uint64_t trace_id, Value value);
  /// Has the sizes, strides, offset and dtype of `shape`; `storage_size` is the size of its storage in elements.
  FakeTensorImpl(const ResultShape& shape, int64_t storage_size, c10::Device device, uint64_t trace_id, Value value);

  /// Returns a meta tensor that looks like this one, made when it is first asked for.
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

/// Makes a fake tensor that looks like `meta`, on `device`, for `value` of the trace.
at::Tensor make_fake(at::Tensor meta, c10::Device device, uint64_t trace_id, Value value);
/// The same for a tensor that looks as `shape` says, in a storage of `storage_size` elements.
at::Tensor make_fake(const ResultShape& shape, int64_t storage_size, c10::Device device, uint64_t trace_id,
                     Value value);
/// Releases the fake tensors that were made on this thread, once its outermost trace has ended.
void release_fakes();
/// Returns the fake tensor behind `tensor`, which functionalization may have wrapped; null if there is none.
FakeTensorImpl* as_fake(const at::Tensor& tensor);
/// Whether `tensor` stands for a value of some trace, live or ended.
bool is_stand_in(const at::Tensor& tensor);
/// Makes data_ptr() on a stand-in throw instead of returning null, and makes the stand-in report the backend of a dense
/// tensor.
void look_dense(const at::Tensor& stand_in);
/// Remembers, and does not keep, the stand-ins that functions get on this thread as long as it lives. Requires: is
/// destroyed on the thread that made it, the last one first.
class GivenStandIns {
 public:
  GivenStandIns();
  ~GivenStandIns();
  GivenStandIns(const GivenStandIns&) = delete;
  GivenStandIns& operator=(const GivenStandIns&) = delete;
  using Weak = std::vector<c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>>;
  void add(const at::Tensor& stand_in);
  const Weak& given() const { return given_; }
  /// Returns those that somebody keeps.
  static std::vector<at::Tensor> alive(const Weak& given);

 private:
  GivenStandIns* outer_;
  Weak given_;
};

/// Returns a meta tensor with the sizes, strides, offset and dtype of `tensor`.
at::Tensor meta_like(const at::Tensor& tensor);

/// Returns the elements of a boxed Tensor[] or Tensor?[] argument, which a caller may have boxed as either list.
std::vector<std::optional<at::Tensor>> optional_tensors(const c10::IValue& list);

}  // namespace diptych::detail
