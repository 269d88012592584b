#include "diptych/trace/location.h"

#include "diptych/trace/scope.h"

namespace diptych {
namespace {
LocationSource location_source = nullptr;
}

void set_location_source(LocationSource source) { location_source = source; }

InternedString detail::current_place() {
  const InternedString scope = current_scope();
  const InternedString location = location_source != nullptr ? location_source() : InternedString();
  if (location.empty() || scope.empty()) return scope.empty() ? location : scope;
  return InternedString(scope.str() + "/" + location.str());
}

}  // namespace diptych
