#include "diptych/autodiff/memory_errors.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "diptych/base/check.h"

namespace diptych::detail {

// at::tensor() writes to the memory of the tensor that it makes.
void refuse_memory(const c10::Error& error) {
  constexpr std::string_view kWords[] = {"Cannot access data pointer of Tensor", "its data is not allocated yet"};
  const std::string_view text = error.what_without_backtrace();
  const bool is_about_memory = std::any_of(std::begin(kWords), std::end(kWords),
                                           [&](std::string_view words) { return text.find(words) != text.npos; });
  DIPTYCH_CHECK(
      !is_about_memory,
      "[capture] the function reads or writes the memory of a tensor, as data_ptr() and at::tensor({{...}}) "
      "do, but a traced tensor has no memory; call torch::tensor({{...}}), at::full or at::arange for a tensor "
      "of numbers, or do it outside the function and capture the tensor");
}

}  // namespace diptych::detail
