#include "diptych/trace/parts.h"

#include <ATen/ops/index.h>
#include <ATen/ops/index_put.h>

#include <algorithm>

#include "diptych/base/check.h"
#include "diptych/trace/levels.h"
#include "diptych/trace/location.h"
#include "diptych/trace/recorder.h"
#include "diptych/trace/stack_tensors.h"
#include "diptych/trace/view_steps.h"

namespace diptych::detail {
namespace {

using torch::jit::Stack;

const c10::StorageImpl* memory_of(const at::Tensor& tensor) { return tensor.storage().unsafeGetStorageImpl(); }

// Calls `visit` for each tensor that the operator writes to, as its schema says, tensors for results included.
template <class Visit>
void each_written_argument(const Stack& stack, const OperatorPlan& plan, const Visit& visit) {
  const size_t begin = stack.size() - plan.takes_tensor.size();
  for (size_t i = 0; i < plan.writes.size(); ++i) {
    const c10::IValue& argument = stack[begin + i];
    if (!plan.writes[i] || argument.isNone()) continue;
    if (argument.isTensor()) {
      visit(argument.toTensor());
    } else if (argument.isTensorList()) {
      for (const at::Tensor& tensor : argument.toTensorList()) visit(tensor);
    }
  }
}

bool is_index(const c10::OperatorHandle& op) {
  static const auto kIndex = c10::Dispatcher::singleton().findSchemaOrThrow("aten::index", "Tensor");
  return op == kIndex;
}

/// A flag that is set as long as it lives.
class Set {
 public:
  explicit Set(bool& flag) : flag_(flag) { flag_ = true; }
  ~Set() { flag_ = false; }
  Set(const Set&) = delete;
  Set& operator=(const Set&) = delete;

 private:
  bool& flag_;
};

}  // namespace

Parts::Call::Call(Recorder& recorder, const c10::OperatorHandle& op, const OperatorPlan& plan, const Stack& stack)
    : recorder_(recorder) {
  Parts& parts = recorder.parts();
  if (parts.is_taking_ && is_index(op)) taken_.assign(stack.end() - 2, stack.end());
  if (parts.parts_.empty()) return;
  each_written_argument(stack, plan, [&](const at::Tensor& tensor) {
    if (tensor.defined() && parts.touches(tensor)) written_.push_back(tensor);
  });
  DIPTYCH_CHECK(
      written_.size() < 2,
      "[trace] {} writes to several tensors, more than one of which is a part that an index which is a tensor "
      "has taken, or has such parts; write to one after the other",
      with_place(op.operator_name()));
}

void Parts::Call::finish(const Stack& stack) {
  if (!taken_.empty()) recorder_.parts().note(recorder_, taken_, stack.back().toTensor());
  for (const at::Tensor& tensor : written_) recorder_.parts().repeat_write(tensor);
}

at::Tensor Parts::take(const at::Tensor& tensor, const Indices& indices) {
  const Set taking(is_taking_);
  takes_in_transform_ = levels_are_active();  // while a transform calls an operator, its own level is put aside
  return at::index(tensor, indices);
}

void Parts::note(Recorder& recorder, const Stack& taken, const at::Tensor& part) {
  Indices indices;
  for (const std::optional<at::Tensor>& index : optional_tensors(taken[1])) {
    indices.push_back(index && index->defined() ? std::optional(recorder.snapshot(*index)) : std::nullopt);
  }
  c10::TensorImpl* const impl = part.unsafeGetTensorImpl();
  parts_.push_back(std::make_shared<Part>(Part{.whole = taken[0].toTensor(),
                                               .part = decltype(Part::part)(part.getIntrusivePtr()),
                                               .storage = part.storage().getWeakStorageImpl(),
                                               .version = impl->version_counter(),
                                               .indices = std::move(indices),
                                               .is_transformed = takes_in_transform_}));
}

bool Parts::shows(const at::Tensor& part, const at::Tensor& tensor, const Indices& indices, Recorder& recorder) const {
  const auto is_same_index = [&](std::optional<at::Tensor> a, const std::optional<at::Tensor>& b) {
    if (!a || !b) return !a && !b;
    return recorder.value_of(*a) == recorder.value_of(recorder.stand_in(*b));
  };
  return std::any_of(parts_.begin(), parts_.end(), [&](const std::shared_ptr<Part>& one) {
    const auto found = one->part.lock();
    if (found.get() != part.unsafeGetTensorImpl() || !one->whole.is_same(recorder.stand_in(tensor))) return false;
    if (one->is_transformed || one->indices.size() != indices.size()) return false;
    for (size_t i = 0; i < indices.size(); ++i) {
      if (!is_same_index(one->indices.get(i), indices.get(i))) return false;
    }
    return true;
  });
}

bool Parts::touches(const at::Tensor& written) const {
  const c10::StorageImpl* const memory = memory_of(written);
  return std::any_of(parts_.begin(), parts_.end(),
                     [&](const auto& one) { return one->is_in(memory) || one->is_of(memory); });
}

bool Parts::relates(const at::Tensor& a, const at::Tensor& b) const {
  if (parts_.empty() || !a.has_storage() || !b.has_storage()) return false;
  // What the memory of a tensor is part of, and the memory itself.
  const auto wholes = [&](const at::Tensor& tensor) {
    std::vector<const c10::StorageImpl*> found{memory_of(tensor)};
    for (size_t i = 0; i < found.size(); ++i) {
      for (const auto& one : parts_) {
        if (one->is_in(found[i])) found.push_back(memory_of(one->whole));
      }
    }
    return found;
  };
  const auto of_a = wholes(a), of_b = wholes(b);
  return std::find_first_of(of_a.begin(), of_a.end(), of_b.begin(), of_b.end()) != of_a.end();
}

void Parts::drop_dead() {
  std::erase_if(parts_, [](const std::shared_ptr<Part>& part) { return part->storage.expired(); });
}

// First upwards, then to the other parts of what was written. The writes that repeat it come here, too.
void Parts::repeat_write(const at::Tensor& written) {
  drop_dead();
  const c10::StorageImpl* const memory = memory_of(written);
  const auto parts = parts_;  // these writes take and drop parts
  for (const auto& part : parts) {
    if (!part->is_repeating && part->is_in(memory)) put_back(*part);
  }
  for (const auto& part : parts) {
    if (!part->is_repeating && part->is_of(memory)) show_again(*part);
  }
}

void Parts::put_back(Part& part) {
  check_can_repeat(part);
  const auto elements = part.part.lock();
  DIPTYCH_CHECK(static_cast<bool>(elements),
                "[trace] {} writes to a view of a part that a tensor's index has taken, whose part is gone; keep the "
                "part, or index the tensor when it is written to",
                with_place("the function"));
  const Set repeating(part.is_repeating);
  part.whole.index_put_(part.indices, at::Tensor(elements));
}

void Parts::show_again(Part& part) {
  check_can_repeat(part);
  const auto elements = part.part.lock();
  // What autograd has saved of a part that is gone was changed, as it would have been with the view that it is in
  // eager.
  if (!elements) return part.version.bump();
  const Set repeating(part.is_repeating);
  at::Tensor(elements).copy_(at::index(part.whole, part.indices));
}

void Parts::check_can_repeat(const Part& part) {
  const auto elements = part.part.lock();
  DIPTYCH_CHECK(!elements || steps_of(at::Tensor(elements)).empty(),
                "[trace] {} writes to a tensor of which it has taken a part by an index that is a tensor, or to that "
                "part, whose shape it has changed in place; reshape a view of it",
                with_place("the function"));
  DIPTYCH_CHECK(!part.is_transformed,
                "[trace] {} writes to a tensor of which it has taken a part by an index that is a tensor, or to that "
                "part, in a transform of torch.func; assign to tensor[index], or use operators that return new tensors",
                with_place("the function"));
}

}  // namespace diptych::detail
