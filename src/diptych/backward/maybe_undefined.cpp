#include "diptych/backward/maybe_undefined.h"

namespace diptych::detail {

c10::List<int64_t> encode_origins(const std::vector<Origins>& lists) {
  c10::List<int64_t> numbers;
  for (const Origins& origins : lists) {
    numbers.push_back(static_cast<int64_t>(origins.size()));
    for (const int64_t number : origins) numbers.push_back(number);
  }
  return numbers;
}

std::vector<Origins> decode_origins(const std::vector<int64_t>& numbers) {
  std::vector<Origins> lists;
  for (size_t i = 0; i < numbers.size(); i += 1 + static_cast<size_t>(numbers[i])) {
    const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    lists.emplace_back(begin, begin + numbers[i]);
  }
  return lists;
}

const Origins* OriginsOfTensors::find(const at::Tensor& tensor) const {
  const auto found = origins_.find(tensor.unsafeGetTensorImpl());
  return found == origins_.end() ? nullptr : &found->second;
}

Origins OriginsOfTensors::of(const at::Tensor& tensor) const {
  const Origins* found = tensor.defined() ? find(tensor) : nullptr;
  return found == nullptr ? Origins() : *found;
}

void OriginsOfTensors::set(const at::Tensor& tensor, Origins origins) {
  if (origins_.try_emplace(tensor.unsafeGetTensorImpl(), std::move(origins)).second) kept_.push_back(tensor);
}

void OriginsOfTensors::derive(at::TensorList inputs, at::TensorList outputs) {
  Origins all;
  bool any = false;
  for (const at::Tensor& input : inputs) {
    if (!input.defined()) continue;
    const Origins* origins = find(input);
    if (origins == nullptr) return;
    any = true;
    all.insert(all.end(), origins->begin(), origins->end());
  }
  for (const at::Tensor& output : outputs) {
    if (any && output.defined()) set(output, all);
  }
}

}  // namespace diptych::detail
