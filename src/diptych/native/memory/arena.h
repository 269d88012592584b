// One range of addresses that blocks of any size are cut from, so that what one size leaves free another takes.
#pragma once
#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "diptych/native/kernel/memory_extent.h"

namespace diptych::detail {

/// Cuts blocks out of one range of addresses, several times as large as the machine's memory, of which pages are taken
/// from the system when blocks first reach them. A block takes the smallest free range that holds it, and neighbours
/// that are free are one range: the range in use stays within some percent of what was live at once. Threads: one.
class Arena {
 public:
  static constexpr size_t kGrain = kCacheLine;  ///< sizes and addresses of blocks are multiples of it

  Arena();
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Returns a block, or null where the system gives no more. Requires: `size` is a multiple of kGrain, and not 0.
  void* take(size_t size);
  /// Takes a block back. Requires: take() returned it for this size.
  void give(void* block, size_t size);
  /// Gives free pages back to the system, those of the highest addresses first, until it holds at most `most` bytes,
  /// or all that blocks leave free.
  void trim(size_t most);

  bool holds(const void* block) const;
  /// The bytes of memory that blocks have reached since the system gave it: those of live blocks among them.
  size_t reached() const { return num_reached_ * kPage; }
  static constexpr size_t kPage = size_t{2} << 20U;  ///< memory comes and goes by huge pages

 private:
  bool open_up_to(size_t end);
  void reach(size_t begin, size_t end);
  void add_free(size_t begin, size_t end);
  void remove_free(std::map<size_t, size_t>::iterator range);

  char* base_ = nullptr;
  size_t size_ = 0;                              // of the range
  size_t open_ = 0;                              // may be read and written up to here
  std::map<size_t, size_t> free_;                // begins and ends of free ranges below the last block
  std::set<std::pair<size_t, size_t>> by_size_;  // their sizes and begins
  size_t end_ = 0;                               // of the last block: all above is free
  std::vector<bool> reached_;                    // by page
  size_t num_reached_ = 0;
};

}  // namespace diptych::detail
