// Running a function beside its compiled form, without any effect on the program's tensors.
//
// Note [A shadow of a call]: the original function runs on copies, and every tensor that it reaches stays unchanged.
// Its arguments are copies already. Known tensors that it reaches in other ways (the parameters of a module, the
// tensors of a closure) are exchanged for copies when an operator receives them, as a trace does it. An attribute such
// as x.data does not come from an operator, so for the time of the call the storages of the real tensors use the
// copies' memory. An unknown tensor gets other memory before an operator writes to it, and its own memory back at the
// end. The written memory is kept, to be compared with what the compiled function wrote.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "diptych/trace/operator_plan.h"
#include "diptych/trace/value_sketch.h"

namespace diptych::detail {

/// One operator that ran below autograd: what it computed, and the line of the user's code that called it.
struct OperatorRecord {
  std::string name;  ///< "mul", for mul.Tensor and for mul_.Scalar
  std::string place;
  std::vector<ValueSketch> results;
};

/// Returns the name that an OperatorRecord has for an operator: without namespace, overload, and trailing underscore.
std::string plain_operator_name(std::string_view name);

/// The state of one shadow. Threads: one at a time.
class Shadow {
 public:
  /// From now on operators use `copy` for `real`. With `shares_layout`, which says that both lie alike in their
  /// storages, code that reads the memory of `real` sees the copy as well.
  void exchange(const at::Tensor& real, const at::Tensor& copy, bool shares_layout);
  /// Returns the copy of `tensor` if there is one, and `tensor` itself if not.
  const at::Tensor& copy_of(const at::Tensor& tensor) const;

  /// Returns what operators computed since the last call of this function.
  std::vector<OperatorRecord> take_records() { return std::exchange(records_, {}); }

  /// A tensor that was not exchanged, and that the shadow wrote to.
  struct Write {
    at::Tensor real;
    at::Tensor written;  ///< its storage's bytes, as the shadow left them
  };
  std::vector<Write> take_writes() { return std::exchange(writes_, {}); }

  /// Returns the innermost shadow of this thread, or null.
  static Shadow* current();

  /// The kernels of the two dispatch keys while a shadow is current: where the call goes on with the keys `below`, and
  /// the `keys` that it came to kFakeKey with.
  void call_in_front(const c10::OperatorHandle& op, const OperatorPlan& plan, c10::DispatchKeySet below,
                     torch::jit::Stack* stack);
  void call_below(const c10::OperatorHandle& op, const OperatorPlan& plan, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack);

 private:
  friend class ShadowGuard;
  struct Loan {
    c10::Storage storage;
    c10::DataPtr own;
  };
  void lend_all();
  void lend(const c10::Storage& storage, void* memory);
  void restore();
  void protect_written(const c10::OperatorHandle& op, const OperatorPlan& plan, const torch::jit::Stack& stack);
  void protect(const at::Tensor& tensor);
  void note_results(const torch::jit::Stack& stack, size_t begin,
                    const std::unordered_set<const c10::StorageImpl*>& given);

  struct Exchange {
    at::Tensor real;
    at::Tensor copy;
    bool shares_layout = false;
  };
  std::unordered_map<const c10::TensorImpl*, Exchange> exchanges_;
  std::unordered_set<const c10::StorageImpl*> own_storages_;  ///< of copies, of tensors that the shadow made, and lent
  std::vector<Loan> loans_;
  std::vector<Write> writes_;
  std::vector<std::pair<at::Tensor, int64_t>> versions_;  ///< of tensors before the first write to them
  std::vector<OperatorRecord> records_;
};

/// Makes a shadow current for this thread; its end restores everything, also when an exception is thrown.
/// `lends_memory` is for a forward: a backward reads the memory that the tensors have when it runs.
class ShadowGuard {
 public:
  ShadowGuard(Shadow& shadow, bool lends_memory);
  ~ShadowGuard();
  ShadowGuard(const ShadowGuard&) = delete;
  ShadowGuard& operator=(const ShadowGuard&) = delete;

 private:
  Shadow* outer_;
  Shadow& shadow_;
  c10::impl::LocalDispatchKeySet saved_keys_;
};

/// Whether a compiled function that is called on this thread is inlined, as inside a trace or a shadow.
bool runs_inlined();

}  // namespace diptych::detail
