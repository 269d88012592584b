// Naming the parts of a traced function.
#pragma once
#include <string_view>

#include "diptych/base/interned_string.h"

namespace diptych {

/// While it lives, nodes that are traced on this thread carry `name` behind the names of outer scopes: "block3/attn".
/// Outside a trace it costs almost nothing. Threads: each thread has its own scopes.
class Scope {
 public:
  explicit Scope(std::string_view name);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  InternedString outer_;
};

/// `auto guard = dp::scope("block3");`
[[nodiscard]] inline Scope scope(std::string_view name) { return Scope(name); }

namespace detail {
InternedString current_scope();
}

}  // namespace diptych
