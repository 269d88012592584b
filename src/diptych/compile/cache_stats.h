// What the captures of a compiled function have done.
#pragma once
#include <cstddef>
#include <map>
#include <string>

namespace diptych {

/// What a cache has done so far.
struct CacheStats {
  size_t hits = 0;
  size_t misses = 0;
  size_t evictions = 0;
  size_t entries = 0;
  size_t size_checks = 0;     ///< hits that needed a trace: a dynamic capture met these sizes for the first time
  size_t originals = 0;       ///< calls that ran the function itself, since no graph can stand for them
  std::string last_original;  ///< why the last of them did; empty if none did
  size_t refusals = 0;        ///< kinds of call of which no graph can be made, where eager_fallback is set
  size_t checks = 0;          ///< calls that were compared with the original function
  std::string last_miss;      ///< why the last miss was one, compared with the nearest entry; empty for a first call
  /// The number of calls that ran the function itself because of a mode or a transform, by reason.
  std::map<std::string, size_t> original_reasons = {};
};

}  // namespace diptych
