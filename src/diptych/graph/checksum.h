// A 64-bit checksum of bytes (FNV-1a, eight bytes a step), to tell a damaged file; it does not guard against malice.
#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>

namespace diptych {

/// Every single damaged byte changes the result, as each step is invertible in what it takes in.
inline uint64_t checksum(std::string_view bytes, uint64_t state = 0xcbf29ce484222325ULL) {
  constexpr uint64_t kPrime = 0x100000001b3ULL;
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    state = (state ^ word) * kPrime;
    state ^= state >> 29;
  }
  for (const char c : bytes) state = (state ^ static_cast<unsigned char>(c)) * kPrime;
  return state;
}

}  // namespace diptych
