#include "diptych/interpreter/allocated_results.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <utility>

#include "diptych/interpreter/program.h"
#include "diptych/ops/dispatch_keys.h"
#include "diptych/ops/related_operators.h"

namespace diptych::detail {
namespace {

thread_local c10::Allocator* open_allocator = nullptr;

bool is_plain(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_cpu() && tensor.layout() == at::kStrided &&
         !tensor.unsafeGetTensorImpl()->key_set().has_any(kTransformedKeys);
}

// Hands the out= form a tensor without elements, which that gives its sizes and strides, by the tensor's allocator.
class AllocatedResultCaller final : public Caller {
 public:
  AllocatedResultCaller(std::unique_ptr<Caller> plain, std::unique_ptr<Caller> into,
                        c10::SmallVector<int32_t, 3> operands, int32_t output)
      : plain_(std::move(plain)), into_(std::move(into)), operands_(std::move(operands)), output_(output) {}

  void call(Frame& frame) const override {
    if (!takes_memory(frame)) return plain_->call(frame);
    frame.registers[output_] =
        at::detail::empty_generic({0}, open_allocator, c10::DispatchKeySet(c10::DispatchKey::CPU),
                                  frame.tensor(operands_.back()).scalar_type(), std::nullopt);
    into_->call(frame);
  }

 private:
  bool takes_memory(const Frame& frame) const {
    // Modes see the operator that was recorded.
    return open_allocator != nullptr && !frame.options->differentiable &&
           !c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Python) &&
           std::all_of(operands_.begin(), operands_.end(),
                       [&](int32_t operand) { return is_plain(frame.tensor(operand)); });
  }

  std::unique_ptr<Caller> plain_, into_;
  c10::SmallVector<int32_t, 3> operands_;
  int32_t output_;
};

}  // namespace

ResultAllocatorScope::ResultAllocatorScope(c10::Allocator& allocator)
    : before_(std::exchange(open_allocator, &allocator)) {}

ResultAllocatorScope::~ResultAllocatorScope() { open_allocator = before_; }

bool has_allocated_result(const Node& node) {
  return node.outputs.size() == 1 && node.outputs[0] && product_into(node.op);
}

std::unique_ptr<Caller> with_allocated_result(std::unique_ptr<Caller> plain, const Node& node, OperandTable& table,
                                              int32_t output) {
  const auto out_form = product_into(node.op);
  c10::SmallVector<int32_t, 3> tensors;
  for (const Operand& operand : node.operands) {
    if (OperandTable::is_tensor(operand)) tensors.push_back(table.tensor_reference(operand));
  }
  if (!out_form || tensors.empty()) return plain;
  table.set_register(node.outputs[0], output);
  std::vector<Operand> operands(node.operands.begin(), node.operands.end());
  operands.emplace_back(node.outputs[0]);
  auto into = make_typed_caller(out_form->handle(), table, operands, {-1});
  if (!into) return plain;
  return std::make_unique<AllocatedResultCaller>(std::move(plain), std::move(into), std::move(tensors), output);
}

}  // namespace diptych::detail
