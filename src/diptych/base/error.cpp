#include "diptych/base/error.h"

#include <fmt/format.h>
#include <atomic>
#include <string_view>

#include "diptych/base/last_error.h"

namespace diptych::detail {
namespace {
thread_local std::string last_text;
std::atomic<HostThrow> installed_host_throw{nullptr};
}  // namespace

const std::string& last_user_error() { return last_text; }
void set_host_throw(HostThrow host_throw) { installed_host_throw = host_throw; }
HostThrow host_throw() { return installed_host_throw; }

void throw_user_error(std::string text) {
  last_text = text;
  throw UserError(text);
}

void throw_internal_error(const char* file, int line, const char* condition, const std::string& text) {
  const std::string_view path(file);
  const auto room = path.rfind("diptych/");
  throw InternalError(
      fmt::format("diptych internal error: {} ({} is false, {}:{}); please report it with the text above", text,
                  condition, room == path.npos ? path : path.substr(room), line));
}

}  // namespace diptych::detail
