// A 64-bit checksum of bytes (FNV-1a, eight bytes a step), to detect a damaged file; it does not guard against malice.
#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>

namespace diptych::detail {

/// Returns the checksum of `bytes`, continued from `state`. Damage to any single byte changes the result, since each
/// step is invertible in the bytes that it takes in.
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

}  // namespace diptych::detail
