#include "diptych/native/jit/profiler_names.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <mutex>
#include <utility>

#include "diptych/base/environment.h"
#include "diptych/base/log.h"

namespace diptych::detail {

bool names_kernels() {
  static const bool names = is_on("DIPTYCH_PERF", false);
  return names;
}

void write_perf_names(const std::map<std::string, LoadedFunction>& functions) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  static bool reported = false;
  const auto path = fmt::format("{}/perf-{}.map", P_tmpdir, getpid());
  std::ofstream file(path, std::ios::app);
  for (const auto& [name, function] : functions) {
    file << fmt::format("{:x} {:x} {}\n", reinterpret_cast<uintptr_t>(function.address), function.bytes, name);
  }
  file.close();
  if (file.good() || std::exchange(reported, true)) return;
  log(Log::kCache, "native: '{}' cannot be written; perf shows no names of kernels", path);
}

}  // namespace diptych::detail
