#include "diptych/native/memory/arena.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

namespace diptych::detail {
namespace {

constexpr size_t kTimesTheMemory = 4;
constexpr size_t kPagesAtOnce = 16;  // a call of the system opens so many

size_t memory_of_machine() {
  const auto pages = ::sysconf(_SC_PHYS_PAGES), bytes = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && bytes > 0 ? static_cast<size_t>(pages) * static_cast<size_t>(bytes) : size_t{1} << 34U;
}

}  // namespace

// Addresses cost nothing until they are opened. A process whose addresses are limited has none to spare.
Arena::Arena() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY) return;
  for (size_t size = rounded_up(kTimesTheMemory * memory_of_machine(), kPage); size >= 2 * kPage;
       size = rounded_up(size / 2, kPage)) {
    void* const range = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) continue;
    const size_t skipped = rounded_up(reinterpret_cast<size_t>(range), kPage) - reinterpret_cast<size_t>(range);
    base_ = static_cast<char*>(range) + skipped;
    size_ = (size - skipped) / kPage * kPage;
    ::munmap(range, skipped);
    return;
  }
}

Arena::~Arena() {
  if (base_ != nullptr) ::munmap(base_, size_);
}

bool Arena::holds(const void* block) const { return base_ != nullptr && block >= base_ && block < base_ + size_; }

bool Arena::open_up_to(size_t end) {
  if (end <= open_) return true;
  if (end > size_) return false;
  const size_t to = std::min(rounded_up(end, kPagesAtOnce * kPage), size_);
  if (::mprotect(base_ + open_, to - open_, PROT_READ | PROT_WRITE) != 0) return false;
  ::madvise(base_ + open_, to - open_, MADV_HUGEPAGE);
  open_ = to;
  reached_.resize(open_ / kPage);
  return true;
}

void Arena::reach(size_t begin, size_t end) {
  for (size_t page = begin / kPage; page * kPage < end; ++page) {
    if (!reached_[page]) ++num_reached_;
    reached_[page] = true;
  }
}

void Arena::add_free(size_t begin, size_t end) {
  free_.emplace(begin, end);
  by_size_.emplace(end - begin, begin);
}

void Arena::remove_free(std::map<size_t, size_t>::iterator range) {
  by_size_.erase({range->second - range->first, range->first});
  free_.erase(range);
}

void* Arena::take(size_t size) {
  const auto found = by_size_.lower_bound({size, 0});
  if (found == by_size_.end()) {
    if (size > size_ - end_ || !open_up_to(end_ + size)) return nullptr;
    const size_t begin = end_;
    end_ += size;
    reach(begin, end_);
    return base_ + begin;
  }
  const size_t begin = found->second, end = begin + found->first;
  remove_free(free_.find(begin));
  if (begin + size < end) add_free(begin + size, end);
  reach(begin, begin + size);
  return base_ + begin;
}

void Arena::give(void* block, size_t size) {
  size_t begin = static_cast<size_t>(static_cast<char*>(block) - base_), end = begin + size;
  auto next = free_.lower_bound(begin);
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->second == begin) {
      begin = before->first;
      remove_free(before);
    }
  }
  if (next != free_.end() && next->first == end) {
    end = next->second;
    remove_free(next);
  }
  if (end == end_) {
    end_ = begin;
  } else {
    add_free(begin, end);
  }
}

void Arena::trim(size_t most) {
  size_t end = open_;  // of the free range that is looked at: all above the last block first
  size_t begin = end_;
  auto next = free_.end();
  while (reached() > most) {
    const size_t first = rounded_up(begin, kPage) / kPage;
    for (size_t page = end / kPage; page > first && reached() > most;) {
      if (!reached_[--page]) continue;
      ::madvise(base_ + page * kPage, kPage, MADV_DONTNEED);
      reached_[page] = false;
      --num_reached_;
    }
    if (next == free_.begin()) return;
    --next;
    begin = next->first;
    end = next->second;
  }
}

}  // namespace diptych::detail
