#include "diptych/trace/location.h"

#include <fmt/format.h>

#include "diptych/graph/library_forms.h"
#include "diptych/trace/scope.h"

namespace diptych::detail {
namespace {
LocationSource location_source = nullptr;
}

void set_location_source(LocationSource source) { location_source = source; }

InternedString current_place() {
  const InternedString scope = current_scope();
  const InternedString location = location_source != nullptr ? location_source() : InternedString();
  if (location.empty() || scope.empty()) return scope.empty() ? location : scope;
  return InternedString(scope.str() + "/" + location.str());
}

std::string with_scope(std::string_view what, const InternedString& scope) {
  return scope.empty() ? std::string(what) : fmt::format("{} in scope '{}'", what, scope.str());
}

std::string with_place(std::string_view what) { return with_scope(what, current_place()); }

std::string with_place(const c10::OperatorName& op) { return with_place(c10::toString(name_for_user(op))); }

}  // namespace diptych::detail
