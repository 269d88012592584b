#include "diptych/base/parallel.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>

#include "diptych/base/torch_library.h"

namespace diptych::detail {
namespace {

// GNU OpenMP's "#pragma omp parallel": runs `body(data)` on so many threads, this one among them.
using Fork = void (*)(void (*body)(void*), void* data, unsigned num_threads, unsigned flags);

struct Work {
  int64_t count, part;
  const std::function<void(int64_t, int64_t)>& body;
  std::atomic<int64_t> next{0};
  std::mutex mutex{};
  std::exception_ptr error{};

  // Threads take parts as they get to them: one that was kept waiting takes fewer.
  void run() noexcept {
    next.load();
    const int64_t end = count;  // not read after the last fetch_add
    for (int64_t begin = next.fetch_add(part); begin < end; begin = next.fetch_add(part)) {
      try {
        body(begin, std::min(begin + part, end));
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (error == nullptr) error = std::current_exception();
      }
    }
  }
};

}  // namespace

void in_parallel(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  static const Fork fork = reinterpret_cast<Fork>(find_in_torch("GOMP_parallel"));
  const int64_t threads = std::min<int64_t>(at::get_num_threads(), count / std::max<int64_t>(grain, 1));
  if (threads < 2 || fork == nullptr || at::in_parallel_region()) {
    if (count > 0) body(0, count);
    return;
  }
  // Several parts for each thread, so that none waits long for the last one.
  constexpr int64_t kPartsPerThread = 4;
  Work work{count, std::max(grain, (count + threads * kPartsPerThread - 1) / (threads * kPartsPerThread)), body};
  // That the work comes after what is above and before what is below is OpenMP's doing, which the thread sanitizer
  // can't see. It sees this store and the load, and between them what the threads do with `next`.
  work.next.store(0);
  fork([](void* data) { static_cast<Work*>(data)->run(); }, &work, static_cast<unsigned>(threads), 0);
  work.next.load();
  if (work.error != nullptr) std::rethrow_exception(work.error);
}

}  // namespace diptych::detail
