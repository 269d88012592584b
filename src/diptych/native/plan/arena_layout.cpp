#include "diptych/native/plan/arena_layout.h"

#include <algorithm>

#include "diptych/native/kernel/memory_extent.h"

namespace diptych::detail {
namespace {

int64_t aligned(int64_t bytes) { return rounded_up(std::max<int64_t>(bytes, 1), kCacheLine); }

}  // namespace

int64_t ArenaLayout::take(int64_t bytes) {
  bytes = aligned(bytes);
  auto best = free_.end();
  for (auto entry = free_.begin(); entry != free_.end(); ++entry) {
    if (entry->second >= bytes && (best == free_.end() || entry->second < best->second)) best = entry;
  }
  if (best == free_.end()) {
    // What is free at the end only has to grow.
    const bool grows = !free_.empty() && std::prev(free_.end())->first + std::prev(free_.end())->second == size_;
    const int64_t offset = grows ? std::prev(free_.end())->first : size_;
    if (grows) free_.erase(std::prev(free_.end()));
    size_ = offset + bytes;
    return offset;
  }
  const auto [offset, length] = *best;
  free_.erase(best);
  if (length > bytes) free_.emplace(offset + bytes, length - bytes);
  return offset;
}

void ArenaLayout::release(int64_t offset, int64_t bytes) {
  bytes = aligned(bytes);
  const auto next = free_.lower_bound(offset);
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      free_.erase(before);
    }
  }
  if (next != free_.end() && offset + bytes == next->first) {
    bytes += next->second;
    free_.erase(next);
  }
  free_.emplace(offset, bytes);
}

}  // namespace diptych::detail
