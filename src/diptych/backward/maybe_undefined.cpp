#include "diptych/backward/maybe_undefined.h"

namespace diptych::detail {

c10::List<int64_t> encode_maybe_undefined(const std::vector<MaybeUndefined>& lists) {
  c10::List<int64_t> numbers;
  for (const MaybeUndefined& maybe_undefined : lists) {
    numbers.push_back(static_cast<int64_t>(maybe_undefined.size()));
    for (const int64_t number : maybe_undefined) numbers.push_back(number);
  }
  return numbers;
}

std::vector<MaybeUndefined> decode_maybe_undefined(const std::vector<int64_t>& numbers) {
  std::vector<MaybeUndefined> lists;
  for (size_t i = 0; i < numbers.size(); i += 1 + static_cast<size_t>(numbers[i])) {
    const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    lists.emplace_back(begin, begin + numbers[i]);
  }
  return lists;
}

const MaybeUndefined* MaybeUndefinedTensors::find(const at::Tensor& tensor) const {
  const auto found = maybe_undefined_.find(tensor.unsafeGetTensorImpl());
  return found == maybe_undefined_.end() ? nullptr : &found->second;
}

MaybeUndefined MaybeUndefinedTensors::of(const at::Tensor& tensor) const {
  const MaybeUndefined* found = tensor.defined() ? find(tensor) : nullptr;
  return found == nullptr ? MaybeUndefined() : *found;
}

void MaybeUndefinedTensors::set(const at::Tensor& tensor, MaybeUndefined maybe_undefined) {
  if (maybe_undefined_.try_emplace(tensor.unsafeGetTensorImpl(), std::move(maybe_undefined)).second)
    kept_.push_back(tensor);
}

void MaybeUndefinedTensors::derive(at::TensorList inputs, at::TensorList outputs) {
  MaybeUndefined all;
  bool any = false;
  for (const at::Tensor& input : inputs) {
    if (!input.defined()) continue;
    const MaybeUndefined* maybe_undefined = find(input);
    if (maybe_undefined == nullptr) return;
    any = true;
    all.insert(all.end(), maybe_undefined->begin(), maybe_undefined->end());
  }
  for (const at::Tensor& output : outputs) {
    if (any && output.defined()) set(output, all);
  }
}

}  // namespace diptych::detail
