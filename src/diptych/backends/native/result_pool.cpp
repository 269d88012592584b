#include "diptych/backends/native/result_pool.h"

#include <ATen/EmptyTensor.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <vector>

namespace diptych::detail {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20U;  // blocks of several are aligned to one, and the system asked for them
constexpr size_t kSteps = 8;                    // sizes of blocks per power of two

// The size of the block for so many bytes: a multiple of an eighth of the power of two below.
size_t block_size(size_t bytes) {
  if (bytes <= kAlignment * kSteps) return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const size_t step = std::bit_floor(bytes - 1) / kSteps;
  return (bytes + step - 1) / step * step;
}

void* new_block(size_t size) {
  const bool is_huge = size >= 2 * kHugePage;
  const size_t alignment = is_huge ? kHugePage : kAlignment;
  void* block = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (block == nullptr) throw std::bad_alloc();
  if (is_huge) ::madvise(block, size, MADV_HUGEPAGE);
  return block;
}

class ResultPool final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, c10::kCPU};
    auto* block = new Block{*this, nullptr, block_size(bytes)};
    block->memory = take(block->size);
    return {block->memory, block, &free_block, c10::kCPU};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }

  ResultPoolUse use() {
    const std::lock_guard lock(mutex_);
    return use_;
  }

  void release() {
    const std::lock_guard lock(mutex_);
    drop(0);
    use_.high_water = use_.live;
  }

 private:
  struct Block {
    ResultPool& pool;
    void* memory;
    size_t size;
  };

  static void free_block(void* context) {
    auto* block = static_cast<Block*>(context);
    block->pool.give(block->memory, block->size);
    delete block;
  }

  void* take(size_t size) {
    {
      const std::lock_guard lock(mutex_);
      use_.live += static_cast<int64_t>(size);
      use_.high_water = std::max(use_.high_water, use_.live);
      if (auto& free = free_[size]; !free.empty()) {
        void* block = free.back();
        free.pop_back();
        use_.kept -= static_cast<int64_t>(size);
        return block;
      }
      drop(std::max<int64_t>(use_.high_water / 2 * 3 - use_.live, 0));
    }
    try {
      return new_block(size);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      use_.live -= static_cast<int64_t>(size);
      throw;
    }
  }

  void give(void* block, size_t size) {
    const std::lock_guard lock(mutex_);
    free_[size].push_back(block);
    use_.live -= static_cast<int64_t>(size);
    use_.kept += static_cast<int64_t>(size);
  }

  // Frees kept blocks, the largest first, until they take no more than `most` bytes.
  void drop(int64_t most) {
    for (auto entry = free_.rbegin(); entry != free_.rend() && use_.kept > most; ++entry) {
      while (!entry->second.empty() && use_.kept > most) {
        std::free(entry->second.back());
        entry->second.pop_back();
        use_.kept -= static_cast<int64_t>(entry->first);
      }
    }
  }

  std::mutex mutex_;
  std::map<size_t, std::vector<void*>> free_;  // by size; last freed is first handed out, while it is warm in cache
  ResultPoolUse use_;
};

ResultPool& the_pool() {
  static auto* const pool = new ResultPool;
  return *pool;
}

}  // namespace

c10::Allocator* result_pool() { return &the_pool(); }

ResultPoolUse result_pool_use() { return the_pool().use(); }

void release_result_pool() { the_pool().release(); }

at::Tensor new_result(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype) {
  return at::detail::empty_strided_generic(sizes, strides, &the_pool(), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                           dtype);
}

}  // namespace diptych::detail
