// Shares out one piece of memory among values that live at different times, before there is any.
#pragma once
#include <cstdint>
#include <map>

namespace diptych::detail {

/// Hands out stretches of memory by offset: each the smallest free one that is large enough, aligned to a cache line.
class ArenaLayout {
 public:
  /// Returns where a stretch of so many bytes begins.
  int64_t take(int64_t bytes);
  /// Requires: a stretch that was taken, with its bytes.
  void release(int64_t offset, int64_t bytes);
  /// How many bytes were taken at most, gaps included.
  int64_t size() const { return size_; }

 private:
  int64_t size_ = 0;
  std::map<int64_t, int64_t> free_;  // where stretches begin, and their bytes; no two touch
};

}  // namespace diptych::detail
