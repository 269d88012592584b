// The views that a traced function takes, and the writes that autograd or functionalization does not follow.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "diptych/trace/operator_plan.h"
#include "diptych/trace/primal_table.h"
#include "diptych/trace/view_steps.h"

namespace diptych::detail {

/// Knows which views the function took, under which grad mode and by which kind of operator, and which writes happened
/// behind autograd's back. From this follow the views that must be written back by strides, and whether the graph may
/// be differentiated again.
/// Assumes: note_*() is called for the operators of a forward that the user, or autograd for him, calls; those that
/// functionalization calls are not noted.
class ViewLedger {
 public:
  /// Notes that an operator is about to write to `self`, a stand-in or a tensor that shares its memory.
  void note_write(const at::Tensor& self);
  /// Notes that an operator is about to take a view of `self`.
  void note_view_of(const OperatorPlan& plan, const at::Tensor& self);
  /// Notes that an operator has written to `self`.
  void note_written(const at::Tensor& self);
  /// Notes a view that an operator has returned.
  void note_view(const OperatorPlan& plan, const at::Tensor& view);
  /// Notes a call of as_strided, whose arguments end the stack. Errors: UserError if it reaches elements of a primal's
  /// storage that are not the primal's own.
  void note_strided(const PrimalTable& primals, const torch::jit::Stack& stack);
  /// Notes a tensor that shares the memory of one with a history, which no operator made: see
  /// Note [Data of stand-ins].
  void note_data(const at::Tensor& tensor) { with_history_.add_memory_of(tensor); }
  /// Notes that primals were merged, and whether one of them requires grad.
  void note_merged(bool any_requires_grad);
  /// Keeps a view of a merged primal among those that the function took.
  void add(const at::Tensor& view);

  /// Whether a step in a chain of views was taken where gradients were not recorded.
  bool was_under_no_grad(const ViewStep& step) const { return no_grad_steps_.contains(step); }
  /// Whether a step in a chain of views shows elements as their conjugates, or as another dtype.
  bool reinterprets(const ViewStep& step) const { return reinterpreting_steps_.contains(step); }
  /// Whether the function has changed a tensor in place.
  bool writes() const { return any_write_; }
  /// Whether a tensor with a history was changed without autograd noticing (under no_grad, or through detach()): it
  /// keeps its history and has another value, so that the recorded graph, run under autograd, would not compute what
  /// autograd computes. What such a write leaves in a tensor without a history, as in a buffer, has none in both.
  bool rewrites_history() const { return rewrites_history_; }
  /// Whether memory was changed where autograd would not see it, whatever its history is now.
  bool has_unseen_write(const at::Tensor& stand_in) const { return written_unseen_.has_memory_of(stand_in); }
  /// Whether primals were merged: their elements come from a storage that autograd does not know.
  bool merges_primals() const { return merges_; }
  /// Whether the graph, differentiated again, might not compute what autograd computes.
  bool hides_history() const { return rewrites_history_ || merges_; }
  /// Whether the function has taken views whose offsets count from where the storage of this primal begins, and not
  /// from the primal: at another offset of the primal they would be other elements.
  bool counts_offset_of(size_t primal) const { return counted_offsets_.contains(primal); }

  /// Whether functionalization can write through all views that `view` was taken by.
  bool can_write_back(const at::Tensor& view) const;
  /// Lets autograd take the views of `base` again by their strides, after `base` was written to.
  void recover_views_by_strides(at::Tensor base);  // by value: autograd's old metadata may hold the caller's reference

  /// While it lives, an operator writes to elements that were taken by strides, and views of those can be written back.
  class StridedWrite {
   public:
    explicit StridedWrite(ViewLedger& ledger) : ledger_(ledger) { ledger_.writes_by_strides_ = true; }
    ~StridedWrite() { ledger_.writes_by_strides_ = false; }
    StridedWrite(const StridedWrite&) = delete;
    StridedWrite& operator=(const StridedWrite&) = delete;

   private:
    ViewLedger& ledger_;
  };
  bool writes_by_strides() const { return writes_by_strides_; }

 private:
  /// Storages, kept alive, since another storage may get the address of a dead one.
  class StorageSet {
   public:
    void add_memory_of(const at::Tensor& tensor) {
      storages_.emplace(tensor.storage().unsafeGetStorageImpl(), tensor.storage());
    }
    bool has_memory_of(const at::Tensor& tensor) const {
      return storages_.contains(tensor.storage().unsafeGetStorageImpl());
    }

   private:
    std::unordered_map<const c10::StorageImpl*, c10::Storage> storages_;
  };

  bool passes_no_gradient(const at::Tensor& view) const;
  bool is_unwritable(const OperatorPlan& plan, const at::Tensor& view) const;

  bool writes_by_strides_ = false;
  bool any_write_ = false;
  bool rewrites_history_ = false;
  bool merges_ = false;
  StorageSet with_history_;                                      ///< of which a tensor requires grad
  StorageSet written_unseen_;                                    ///< by autograd
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> views_;  ///< that the function took
  std::unordered_set<ViewStep> unwritable_steps_;                ///< functionalization can't write back through them
  std::unordered_set<ViewStep> no_grad_steps_;
  std::unordered_set<ViewStep> stopping_steps_;  ///< gradients don't pass them
  std::unordered_set<ViewStep> reinterpreting_steps_;
  std::unordered_set<size_t> counted_offsets_;
};

}  // namespace diptych::detail
