#include "diptych/trace/place_of_operand.h"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/as_strided_scatter.h>
#include <ATen/ops/slice_scatter.h>
#include <ATen/ops/where.h>

#include "diptych/base/check.h"
#include "diptych/ops/tags.h"
#include "diptych/trace/location.h"

namespace diptych::detail {
namespace {

// The elements from the first to the last that such strides lead to, those between included.
int64_t extent_of(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  int64_t extent = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return 0;
    extent += (sizes[i] - 1) * strides[i];
  }
  return extent;
}

// What a chain of views of one dtype starts from.
Value root_of(const Graph& graph, Value value) {
  for (const Node* node = graph.producer(value); node != nullptr; node = graph.producer(value)) {
    const auto* base = node->operands.empty() ? nullptr : std::get_if<Value>(&node->operands[0]);
    if (!has_tag(node->op, Tag::kSharesStorage) || base == nullptr || !*base) break;
    if (graph.meta(*base).dtype != graph.meta(value).dtype) break;
    value = *base;
  }
  return value;
}

bool is_callers(const Graph& graph, Value root) {
  const ValueInfo& info = graph.info(root);
  if (info.kind == ValueInfo::Kind::kConstant) return true;
  return info.kind == ValueInfo::Kind::kInput && graph.input_slots()[info.index].kind != SlotKind::kTangent;
}

/// One call, by the positions of its arguments.
struct StridedCall {
  explicit StridedCall(const c10::OperatorHandle& op, torch::jit::Stack* stack)
      : self((*stack)[stack->size() - op.schema().arguments().size()]),
        offset(stack->back()),
        sizes((*stack)[stack->size() - 3].toIntVector()),
        strides((*stack)[stack->size() - 2].toIntVector()) {}

  // Whether all elements are among those from the operand's first to its last.
  bool is_inside(const FakeTensorImpl& operand, int64_t begin) const {
    return begin >= 0 && begin + extent_of(sizes, strides) <= extent_of(operand.sizes(), operand.strides());
  }

  c10::IValue& self;
  c10::IValue& offset;
  std::vector<int64_t> sizes, strides;
};

bool is_zeros(const Graph& graph, Value value) {
  const Node* const maker = graph.producer(value);
  return maker != nullptr && has_tag(maker->op, Tag::kZeros);
}

// Requires: the graph computes the value, and not as a view, so that it begins its storage.
at::Tensor stand_in_of(const Recorder& recorder, Value value) {
  const TensorMeta& meta = recorder.graph().meta(value);
  const auto sizes = meta.size_hints(), strides = meta.stride_hints();
  const ResultShape shape{{sizes.begin(), sizes.end()}, {strides.begin(), strides.end()}, 0, meta.dtype};
  return make_fake(shape, extent_of(sizes, strides), meta.device, recorder.id(), value);
}

void check_dtype(const Graph& graph, Value root, const c10::OperatorHandle& op) {
  const Node* const maker = graph.producer(root);
  DIPTYCH_CHECK(maker == nullptr || !has_tag(maker->op, Tag::kSharesStorage),
                "[trace] {} reaches elements of the storage of a view of another dtype that are not elements of that "
                "view; take the strides of the tensor that it is a view of",
                with_place(op.operator_name()));
}

at::Tensor in_memory_order(const at::Tensor& tensor) {
  return at::as_strided(tensor, {extent_of(tensor.sizes(), tensor.strides())}, {1});
}

// as_strided_scatter into a tensor in memory order, then seen as `self` is.
at::Tensor scattered(const at::Tensor& flat, const at::Tensor& source, const StridedCall& call, int64_t begin,
                     const at::Tensor& self) {
  const at::Tensor part = at::as_strided_scatter(flat.slice(0, begin), source, call.sizes, call.strides);
  return at::as_strided(at::slice_scatter(flat, part, 0, begin), self.sizes(), self.strides());
}

// The formula of autograd for as_strided_scatter passes the gradient on to elements that were overwritten. Eager meets
// it only where the user calls the operator; a graph of eager's writes is differentiated through where().
at::Tensor selected(const at::Tensor& self, const at::Tensor& source, const StridedCall& call, int64_t begin) {
  const int64_t extent = extent_of(self.sizes(), self.strides());
  const at::Tensor is_written =
      scattered(self.new_zeros({extent}, at::kBool), self.new_ones(call.sizes, at::kBool), call, begin, self);
  return at::where(is_written, scattered(self.new_zeros({extent}), source, call, begin, self), self);
}

}  // namespace

bool count_from_operand(Recorder& recorder, const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  StridedCall call(op, stack);
  const FakeTensorImpl* operand = as_fake(recorder.stand_in(call.self.toTensor()));
  const Value root = root_of(recorder.graph(), operand->value);
  if (is_callers(recorder.graph(), root)) return false;
  const c10::IValue given = call.offset;
  const int64_t offset = given.isNone() ? operand->storage_offset() : given.toInt();
  const bool scatters = op.schema().arguments().size() == 5;
  call.offset = c10::IValue();
  if (extent_of(call.sizes, call.strides) == 0) return false;
  if (!call.is_inside(*operand, offset - operand->storage_offset())) {
    check_dtype(recorder.graph(), root, op);
    const at::Tensor whole = stand_in_of(recorder, root);
    if (scatters || !call.is_inside(*as_fake(whole), offset)) {
      call.offset = given;  // of a primal that was written to: it is captured again, with its storage
      return false;
    }
    call.self = whole;
    operand = as_fake(call.self.toTensor());
  }
  const int64_t begin = offset - operand->storage_offset();
  if (!scatters) {
    if (begin != 0) call.self = in_memory_order(call.self.toTensor()).slice(0, begin);
    return false;
  }
  const at::Tensor self = call.self.toTensor();
  const bool is_plain = recorder.front().schema == &op.schema() || !self.is_non_overlapping_and_dense() ||
                        is_zeros(recorder.graph(), root);
  if (begin == 0 && is_plain) return false;
  const size_t first = stack->size() - 5;
  const at::Tensor source = (*stack)[first + 1].toTensor();
  at::Tensor result =
      is_plain ? scattered(in_memory_order(self), source, call, begin, self) : selected(self, source, call, begin);
  stack->resize(first);
  stack->emplace_back(std::move(result));
  return true;
}

}  // namespace diptych::detail
