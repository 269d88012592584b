#include "diptych/trace/place_of_operand.h"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/as_strided_scatter.h>
#include <ATen/ops/slice_scatter.h>

#include "diptych/base/error.h"
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

at::Tensor in_memory_order(const at::Tensor& tensor) {
  return at::as_strided(tensor, {extent_of(tensor.sizes(), tensor.strides())}, {1});
}

at::Tensor scatter_from(const at::Tensor& self, const at::Tensor& source, const StridedCall& call, int64_t begin) {
  const at::Tensor flat = in_memory_order(self);
  const at::Tensor part = at::as_strided_scatter(flat.slice(0, begin), source, call.sizes, call.strides);
  return at::as_strided(at::slice_scatter(flat, part, 0, begin), self.sizes(), self.strides());
}

}  // namespace

bool count_from_operand(Recorder& recorder, const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  StridedCall call(op, stack);
  const FakeTensorImpl* operand = as_fake(recorder.stand_in(call.self.toTensor()));
  const Value root = root_of(recorder.graph(), operand->value);
  if (is_callers(recorder.graph(), root)) return false;
  const int64_t offset = call.offset.isNone() ? operand->storage_offset() : call.offset.toInt();
  const bool scatters = op.schema().arguments().size() == 5;
  call.offset = c10::IValue();
  if (extent_of(call.sizes, call.strides) == 0) return false;
  if (!call.is_inside(*operand, offset - operand->storage_offset())) {
    const TensorMeta& meta = recorder.graph().meta(root);
    const auto sizes = meta.size_hints(), strides = meta.stride_hints();
    const ResultShape shape{{sizes.begin(), sizes.end()}, {strides.begin(), strides.end()}, 0, meta.dtype};
    const at::Tensor whole =
        make_fake(shape, extent_of(shape.sizes, shape.strides), meta.device, recorder.id(), root);
    DIPTYCH_CHECK(!scatters && call.is_inside(*as_fake(whole), offset),
                  "[trace] {} reaches elements of the storage of a view that the trace can't follow, as a view of "
                  "another dtype is; take the strides of the tensor that holds them",
                  with_place(op.operator_name()));
    call.self = whole;
    operand = as_fake(call.self.toTensor());
  }
  const int64_t begin = offset - operand->storage_offset();
  if (begin == 0) return false;
  if (!scatters) {
    call.self = in_memory_order(call.self.toTensor()).slice(0, begin);
    return false;
  }
  const size_t first = stack->size() - 5;
  at::Tensor result = scatter_from(call.self.toTensor(), (*stack)[first + 1].toTensor(), call, begin);
  stack->resize(first);
  stack->emplace_back(std::move(result));
  return true;
}

}  // namespace diptych::detail
