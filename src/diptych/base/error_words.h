// The message of an exception of any kind.
#pragma once
#include <c10/util/Exception.h>

#include <exception>
#include <string>

namespace diptych::detail {

/// Returns the message without LibTorch's backtrace.
inline std::string words_of(const std::exception& error) {
  const auto* from_torch = dynamic_cast<const c10::Error*>(&error);
  return from_torch != nullptr ? from_torch->what_without_backtrace() : error.what();
}

}  // namespace diptych::detail
