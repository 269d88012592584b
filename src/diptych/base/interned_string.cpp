#include "diptych/base/interned_string.h"

#include <mutex>
#include <unordered_set>

namespace diptych {

using namespace detail;
namespace {

const std::string& empty_string() {
  static const std::string empty;
  return empty;
}

// Never freed: the set holds scope and pass names, of which a program has few.
const std::string* intern(std::string_view text) {
  static std::mutex mutex;
  static auto* pool = new std::unordered_set<std::string>();
  const std::lock_guard<std::mutex> lock(mutex);
  return &*pool->emplace(text).first;
}

}  // namespace

InternedString::InternedString() : text_(&empty_string()) {}
InternedString::InternedString(std::string_view text) : text_(text.empty() ? &empty_string() : intern(text)) {}

}  // namespace diptych
