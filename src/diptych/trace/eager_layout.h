// Results laid out in memory as eager lays them out, where the functional operator that replaces an in-place one lays
// them out differently.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "diptych/trace/recorder.h"

namespace diptych::detail {

/// Records aten::copy, which functionalization makes of copy_ and for which autograd has no formula, as a cast, an
/// expansion and a clone. Returns false, with the stack untouched, if the operands are on two devices.
bool record_as_copy_of_source(torch::jit::Stack* stack);

/// Makes a tensor of strides that leave gaps, or let elements overlap, as a view of one that has neither, as values of
/// a graph are; `stack` ends with the arguments of aten.empty_strided or aten.new_empty_strided. Returns false, with
/// the stack untouched, for other strides.
bool make_as_view(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Records a draw that an in-place operator makes in the order of memory on the dimensions in that order: a mask must
/// be the same mask as in eager. Returns false, with the stack untouched, if that is the order of indices too.
bool record_in_memory_order(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Whether a value that the graph computes is conjugated lazily, or negated: by the views that made it, or because the
/// caller's tensor is.
bool is_conjugate_view(const Recorder& recorder, Value value);
bool is_negative_view(const Recorder& recorder, Value value);

/// Does what aten.resolve_conj or aten.resolve_neg does, for a stand-in that ends the stack: copies one that is lazily
/// conjugated, or negated. Returns false, with the stack untouched, if it is not, and for another operator.
bool resolve_lazy_view(Recorder& recorder, const OperatorPlan& plan, torch::jit::Stack* stack);

/// Makes a base that was written to through conjugate or negative views hold the new elements themselves, as in eager,
/// and not a lazy view of them.
void resolve_base(Recorder& recorder, const at::Tensor& tensor);

/// Gives `tensor`, which an in-place operator wrote to, the strides that it had before: the code of the function, and
/// operators that take views, see them.
void restore_layout(const at::Tensor& tensor, c10::IntArrayRef strides);

/// Makes the storage of `base` hold a copy of what it holds.
void replace_base(const at::Tensor& base);

}  // namespace diptych::detail
