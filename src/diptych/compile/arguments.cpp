#include "diptych/compile/arguments.h"
#include <fmt/format.h>

namespace diptych::detail {

std::string argument_name(const std::vector<std::string>& names, size_t index) {
  return index < names.size() ? names[index] : fmt::format("arg{}", index);
}

}  // namespace diptych::detail
