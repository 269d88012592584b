// A function that is run beside its compiled form, so that nobody but the two sees it.
//
// Note [A shadow of a call]: the original function runs on copies, while all that it may reach stays as it is. Its
// arguments are copies already. Tensors that it reaches in other ways (parameters of a module, what a closure holds)
// are exchanged for copies when an operator meets them, as a trace does; and, as an attribute such as x.data comes by
// no operator, their memory is lent the copy's elements for that time. A tensor that nobody knew of is given other
// memory before an operator writes to it, and its own back at the end: what would have been written is kept, to be
// compared with what the compiled function has written.
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

/// One operator that ran below autograd: what it computed, and where the user's code stood.
struct OperatorRecord {
  std::string name;  ///< "mul", of mul.Tensor and mul_.Scalar alike
  std::string place;
  std::vector<ValueSketch> results;
};

/// The name under which OperatorRecords know an operator: without namespace, overload, and the mark of those in place.
std::string plain_operator_name(std::string_view name);

/// The state of one shadow. Threads: one at a time.
class Shadow {
 public:
  /// From now on `real` is `copy` to operators, and to whoever reads its memory where `shares_layout`: both then lie
  /// alike in their storages.
  void exchange(const at::Tensor& real, const at::Tensor& copy, bool shares_layout);
  /// What stands for `tensor`: its copy, or itself.
  const at::Tensor& copy_of(const at::Tensor& tensor) const;

  /// What the operators computed since the last call of this.
  std::vector<OperatorRecord> take_records() { return std::exchange(records_, {}); }

  /// A tensor that was no primal, and that the shadow wrote to.
  struct Write {
    at::Tensor real;
    at::Tensor written;  ///< its storage's bytes, as the shadow left them
  };
  std::vector<Write> take_writes() { return std::exchange(writes_, {}); }

  /// The innermost of this thread, or null.
  static Shadow* current();

  /// The kernels of the two dispatch keys while one is current.
  void call_in_front(const c10::OperatorHandle& op, const OperatorPlan& plan, c10::DispatchKeySet below,
                     torch::jit::Stack* stack);
  void call_below(const c10::OperatorHandle& op, const OperatorPlan& plan, c10::DispatchKeySet below,
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
  std::unordered_set<const c10::StorageImpl*> own_storages_;  ///< of copies, of what the shadow has made, and lent ones
  std::vector<Loan> loans_;
  std::vector<Write> writes_;
  std::vector<std::pair<at::Tensor, int64_t>> versions_;  ///< of what was written to
  std::vector<OperatorRecord> records_;
};

/// Makes a shadow current for this thread, and restores everything when it goes, exception or not. The memory of what
/// is exchanged is lent in the forward alone: a backward reads what is there when it runs.
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

/// Whether a compiled function that is called on this thread is inlined: inside a trace, or a shadow.
bool runs_inlined();

}  // namespace diptych::detail
