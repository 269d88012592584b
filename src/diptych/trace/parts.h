// Parts of tensors whose places are values of the graph, as of `table[i]` with a tensor i that nobody knows.
//
// Note [Parts]: eager's `table[i]` is a view. A graph holds no view whose place only the run knows, so that a part is a
// copy, and what is written to one of the two is repeated: what is written to a part is put into the tensor that it was
// taken from, and what is written there is copied to the parts of it that are still there. Where nothing is written, a
// part is one gather. Where transforms of torch.func are active a repeated write would bypass them, and is refused.
#pragma once
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/UndefinedTensorImpl.h>

#include <memory>
#include <optional>
#include <vector>

#include "diptych/trace/operator_plan.h"

namespace diptych::detail {

class Recorder;

/// The parts that a traced function has taken. Threads: those of its recorder.
class Parts {
 public:
  using Indices = c10::List<std::optional<at::Tensor>>;

  /// Returns `tensor.index(indices)`, and remembers that it shows the elements of `tensor`. `indices` are integers.
  at::Tensor take(const at::Tensor& tensor, const Indices& indices);
  /// Whether `part` shows these elements of `tensor`, so that putting it there changes nothing.
  bool shows(const at::Tensor& part, const at::Tensor& tensor, const Indices& indices, Recorder& recorder) const;

  /// Whether one of two tensors is a part of the other, or both are parts of one.
  bool relates(const at::Tensor& a, const at::Tensor& b) const;

  /// A call of an operator while it lives; finish() remembers a part, and repeats a write.
  class Call {
   public:
    Call(Recorder& recorder, const c10::OperatorHandle& op, const OperatorPlan& plan, const torch::jit::Stack& stack);
    /// `stack` ends with the results.
    void finish(const torch::jit::Stack& stack);

   private:
    Recorder& recorder_;
    std::vector<at::Tensor> written_;
    torch::jit::Stack taken_;  ///< the arguments of take()
  };

 private:
  struct Part {
    at::Tensor whole;
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> part;
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    c10::VariableVersion version;
    Indices indices;  ///< as they were then
    bool is_transformed = false;
    bool is_repeating = false;  ///< a write between the two

    bool is_in(const c10::StorageImpl* memory) const { return storage.lock().get() == memory; }
    bool is_of(const c10::StorageImpl* memory) const { return whole.storage().unsafeGetStorageImpl() == memory; }
  };

  bool touches(const at::Tensor& written) const;
  void note(Recorder& recorder, const torch::jit::Stack& taken, const at::Tensor& part);
  void repeat_write(const at::Tensor& written);
  static void put_back(Part& part);
  static void show_again(Part& part);
  static void check_can_repeat(const Part& part);
  void drop_dead();

  std::vector<std::shared_ptr<Part>> parts_;
  bool is_taking_ = false;
  bool takes_in_transform_ = false;
};

}  // namespace diptych::detail
