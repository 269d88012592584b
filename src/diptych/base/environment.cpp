#include "diptych/base/environment.h"

#include <cstdlib>
#include <string_view>

#include "diptych/base/check.h"

namespace diptych::detail {

bool is_on(const char* variable, bool otherwise) {
  const char* const text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return otherwise;
  const std::string_view word(text);
  DIPTYCH_CHECK(word == "0" || word == "1", "[{}] got '{}', expected 0 or 1; correct it, or unset it", variable, word);
  return word == "1";
}

}  // namespace diptych::detail
