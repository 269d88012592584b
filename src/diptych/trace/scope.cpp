#include "diptych/trace/scope.h"

#include <string>

#include "diptych/trace/recorder.h"

namespace diptych {

using namespace detail;
namespace {
thread_local InternedString current;
}

Scope::Scope(std::string_view name) : outer_(current) {
  // Names are only kept while something records them.
  if (detail::Recorder::current() == nullptr) return;
  current = InternedString(outer_.empty() ? std::string(name) : outer_.str() + "/" + std::string(name));
}

Scope::~Scope() { current = outer_; }

InternedString detail::current_scope() { return current; }

}  // namespace diptych
