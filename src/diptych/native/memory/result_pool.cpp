#include "diptych/native/memory/result_pool.h"

#include <ATen/EmptyTensor.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "diptych/native/memory/arena.h"

namespace diptych::detail {
namespace {

constexpr size_t kAlignment = Arena::kGrain;
constexpr size_t kLarge = size_t{64} << 10U;  // blocks from here on are the arena's
constexpr size_t kSteps = 8;                  // sizes of small blocks per power of two

// Small blocks are handed out by size, in few sizes: multiples of an eighth of the power of two below.
size_t block_size(size_t bytes) {
  if (bytes <= kAlignment * kSteps || bytes >= kLarge) return rounded_up(bytes, kAlignment);
  return rounded_up(bytes, std::bit_floor(bytes - 1) / kSteps);
}

class ResultPool final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, c10::kCPU};
    auto block = std::make_unique<Block>(*this, nullptr, block_size(bytes));
    block->memory = take(block->size);
    report(*block, static_cast<int64_t>(block->size));
    void* const memory = block->memory;
    return {memory, block.release(), &free_block, c10::kCPU};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }

  ResultPoolUse use() {
    const std::lock_guard lock(mutex_);
    const size_t kept = small_kept_ + arena_.reached() - std::min(arena_.reached(), large_.live);
    return {static_cast<int64_t>(live()), static_cast<int64_t>(kept), static_cast<int64_t>(most_live_)};
  }

  void release() {
    const std::lock_guard lock(mutex_);
    drop_small(0);
    arena_.trim(0);
    most_live_ = live();
    small_.most = small_.live;
    large_.most = large_.live;
  }

 private:
  struct Block {
    ResultPool& pool;
    void* memory;
    size_t size;
  };
  struct Use {
    size_t live = 0, most = 0;
  };

  static void free_block(void* context) {
    auto* block = static_cast<Block*>(context);
    block->pool.give(block->memory, block->size);
    block->pool.report(*block, -static_cast<int64_t>(block->size));
    delete block;
  }

  // To a profiler of memory, as LibTorch's allocator does.
  void report(const Block& block, int64_t size) {
    if (!c10::memoryProfilingEnabled()) return;
    const ResultPoolUse now = use();
    c10::reportMemoryUsageToProfiler(block.memory, size, now.live, now.live + now.kept, c10::kCPU);
  }

  size_t live() const { return small_.live + large_.live; }

  void* take(size_t size) {
    const std::lock_guard lock(mutex_);
    void* const block = size < kLarge ? take_small(size) : take_large(size);
    if (block == nullptr) throw std::bad_alloc();
    Use& use = size < kLarge ? small_ : large_;
    use.live += size;
    use.most = std::max(use.most, use.live);
    most_live_ = std::max(most_live_, live());
    return block;
  }

  void* take_small(size_t size) {
    auto& free = free_[size];
    if (free.empty()) {
      drop_small(std::max(small_.most / 4 * 5, small_.live) - small_.live);
      return std::aligned_alloc(kAlignment, size);
    }
    void* const block = free.back();
    free.pop_back();
    small_kept_ -= size;
    return block;
  }

  void* take_large(size_t size) {
    void* const block = arena_.take(size);
    if (block == nullptr) return std::aligned_alloc(kAlignment, size);
    const size_t most = std::max(large_.most, large_.live + size);
    arena_.trim(most / 4 * 5 + 2 * Arena::kPage);
    return block;
  }

  void give(void* block, size_t size) {
    const std::lock_guard lock(mutex_);
    if (size < kLarge) {
      free_[size].push_back(block);
      small_.live -= size;
      small_kept_ += size;
      return;
    }
    large_.live -= size;
    if (arena_.holds(block)) {
      arena_.give(block, size);
    } else {
      std::free(block);
    }
  }

  // Frees kept blocks, the largest first, until they take no more than `most` bytes.
  void drop_small(size_t most) {
    for (auto entry = free_.rbegin(); entry != free_.rend() && small_kept_ > most; ++entry) {
      while (!entry->second.empty() && small_kept_ > most) {
        std::free(entry->second.back());
        entry->second.pop_back();
        small_kept_ -= entry->first;
      }
    }
  }

  std::mutex mutex_;
  Arena arena_;
  std::map<size_t, std::vector<void*>> free_;  // small blocks by size; last freed is first handed out, while it is warm
  Use small_, large_;
  size_t small_kept_ = 0;
  size_t most_live_ = 0;
};

ResultPool& the_pool() {
  static auto* const pool = new ResultPool;
  return *pool;
}

}  // namespace

c10::Allocator* result_pool() { return &the_pool(); }

int64_t result_block_size(int64_t bytes) { return static_cast<int64_t>(block_size(static_cast<size_t>(bytes))); }

ResultPoolUse result_pool_use() { return the_pool().use(); }

void release_result_pool() { the_pool().release(); }

at::Tensor new_result(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype) {
  return at::detail::empty_strided_generic(sizes, strides, &the_pool(), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                           dtype);
}

}  // namespace diptych::detail
