#include "diptych/ops/checked_values.h"

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <string>

namespace diptych::detail {
namespace {

at::Tensor checked_values(const at::Tensor& self, const at::Tensor& is_refused, c10::string_view message,
                          bool is_index) {
  if (!is_refused.any().item<bool>()) return self.clone();
  std::string text(message);
  const auto place = text.find("{}");
  if (place != std::string::npos) {
    text.replace(place, 2, std::to_string(self.masked_select(is_refused)[0].item<int64_t>()));
  }
  if (is_index) C10_THROW_ERROR(IndexError, text);
  C10_THROW_ERROR(Error, text);
}

}  // namespace

void register_checked_values() {
  static auto* const library = [] {
    auto* made = new torch::Library(torch::Library::FRAGMENT, "diptych", std::nullopt, __FILE__, __LINE__);
    made->def("checked(Tensor self, Tensor is_refused, str message, bool is_index) -> Tensor", checked_values);
    return made;
  }();
  (void)library;
}

}  // namespace diptych::detail
