#include "diptych/graph/op.h"

#include "diptych/base/check.h"
#include "diptych/graph/library_forms.h"

namespace diptych {

using namespace detail;

Op Op::find(std::string_view name) {
  std::string qualified(name);
  std::string overload;
  if (const auto colons = qualified.find("::"); colons == std::string::npos) {
    const auto dot = qualified.find('.');
    DIPTYCH_CHECK(dot != std::string::npos, "[Op::find] got '{}', expected a name such as 'aten.add.Tensor'", name);
    qualified.replace(dot, 1, "::");
  }
  if (const auto dot = qualified.find('.', qualified.find("::")); dot != std::string::npos) {
    overload = qualified.substr(dot + 1);
    qualified.resize(dot);
  }
  auto handle = find_library_form({qualified, overload});
  if (!handle) handle = c10::Dispatcher::singleton().findSchema({qualified, overload});
  DIPTYCH_CHECK(
      handle.has_value(),
      "[Op::find] this LibTorch has no operator '{}'; check the overload name, or load the library that registers it",
      name);
  return Op(*handle);
}

std::string Op::name() const {
  if (is_hop()) return fmt::format("hop.{}", hop_->name());
  const auto& full = handle_->operator_name();
  std::string text = full.name;
  if (const auto colons = text.find("::"); colons != std::string::npos) text.replace(colons, 2, ".");
  return full.overload_name.empty() ? text : text + "." + full.overload_name;
}

}  // namespace diptych
