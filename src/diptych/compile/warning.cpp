#include "diptych/compile/warning.h"

#include <c10/util/Exception.h>

#include <utility>

namespace diptych::detail {
namespace {

std::function<void(const std::string&)>& sink() {
  static auto* kept = new std::function<void(const std::string&)>();
  return *kept;
}

}  // namespace

void warn(const std::string& text) {
  if (sink()) return sink()(text);
  TORCH_WARN(text);
}

void set_warning_sink(std::function<void(const std::string& text)> new_sink) { sink() = std::move(new_sink); }

}  // namespace diptych::detail
