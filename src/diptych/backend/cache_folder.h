// What was compiled, in a folder, for the next process.
#pragma once
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "diptych/backend/cache_entry.h"

namespace diptych::detail {

/// A folder of that name for what is compiled: in the one that DIPTYCH_CACHE_DIR names, else in
/// $XDG_CACHE_HOME/diptych, else in ~/.cache/diptych; empty if there is none of these.
std::filesystem::path user_cache_folder(std::string_view name);

/// What a folder holds.
struct CacheKind {
  std::string_view backend;  ///< for the log: "native"
  std::string_view what;     ///< likewise: "kernels"
  std::string_view magic;    ///< the first line of a file; changes with the format
  std::string_view mark;     ///< in the name of each file and of what is on its way to be one; no other file is touched
  uint64_t bound = 0;        ///< bytes that are kept
};

/// A folder of files of one kind, of which the ones that were not used for longest go when there are too many. Whatever
/// is wrong with it is logged (DIPTYCH_LOG=cache) and nothing else comes of it: there is no entry then. Threads: any.
class CacheFolder {
 public:
  /// The folder is made when something is stored; without a folder nothing is.
  CacheFolder(std::filesystem::path folder, CacheKind kind) : folder_(std::move(folder)), kind_(kind) {}

  const std::filesystem::path& path() const { return folder_; }

  /// What was made of a key, which holds all that it was made of.
  std::optional<std::string> load(std::string_view key) const;
  /// Returns whether it was stored.
  bool store(std::string_view key, std::string_view content);

 private:
  std::filesystem::path path_of(std::string_view key) const;
  std::string write(std::string_view key, std::string_view content) const;
  void add(uint64_t bytes);
  void remove_oldest();

  std::filesystem::path folder_;
  CacheKind kind_;
  std::atomic<bool> reported_{false};
  std::mutex mutex_;
  std::optional<uint64_t> held_;  // bytes in the folder, as far as this process knows; guarded by mutex_
};

}  // namespace diptych::detail
