// Work for several threads.
#pragma once
#include <cstdint>
#include <functional>

namespace diptych::detail {

// Note [LibTorch's threads]
// at::parallel_for is a template, and what it becomes depends on who compiles it: without OpenMP's pragmas, as in most
// programs that only use LibTorch, it is a plain loop. With them, and another compiler than LibTorch's, there would be
// a second OpenMP in the process, whose threads compete with the first one's. So work goes to the OpenMP that LibTorch
// itself uses (GNU's, in its Linux builds), by the entry that compiled pragmas call. Where that is not to be found, the
// calling thread does all of it.

/// Calls `body(begin, end)` for parts of [0, count) of at least `grain`, each once, on as many threads as
/// at::get_num_threads() says, and returns when all are done; within a parallel region, and for work below two grains,
/// on this thread. An exception of `body` is thrown here, once the other parts have ended. Threads: any.
void in_parallel(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

}  // namespace diptych::detail
