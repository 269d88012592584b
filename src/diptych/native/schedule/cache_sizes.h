// What the machine's caches hold.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <fstream>

namespace diptych::detail {

/// The bytes of a cache as Linux has them, `usual` where it says nothing: the second is a core's own, the third the
/// last. sysconf() adds up the caches of all processors of some machines (AMD, glibc 2.36: 256 MB in place of 32).
inline int64_t cache_bytes(int level, int64_t usual) {
  std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", level));
  int64_t kilobytes = 0;
  return file >> kilobytes && kilobytes > 0 ? kilobytes << 10 : usual;
}

}  // namespace diptych::detail
