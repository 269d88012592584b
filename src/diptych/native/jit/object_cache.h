// Object files of kernels in a folder, for the next process.
#pragma once
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace diptych::detail {

/// Where kernels are kept: `kernels` in the folder that DIPTYCH_CACHE_DIR names, else in $XDG_CACHE_HOME/diptych, else
/// in ~/.cache/diptych; empty if there is none of these.
std::filesystem::path kernel_folder();

/// Whether kernels are kept: DIPTYCH_KERNEL_CACHE=0 says no. Errors: UserError if it is neither 0 nor 1.
bool keeps_kernels();

/// A folder of object files, of which the ones that were not used for longest go when there are too many. Whatever is
/// wrong with it is logged (DIPTYCH_LOG=cache) and nothing else comes of it: there is no entry then. Threads: any.
class ObjectCache {
 public:
  static constexpr uint64_t kBound = uint64_t{256} << 20;

  /// Keeps at most `bound` bytes. The folder is made when something is stored; without a folder nothing is.
  explicit ObjectCache(std::filesystem::path folder, uint64_t bound = kBound);

  /// The object of a key, which holds all that it was made of.
  std::optional<std::string> load(std::string_view key) const;
  void store(std::string_view key, std::string_view object);

 private:
  std::filesystem::path path_of(std::string_view key) const;
  std::string write(std::string_view key, std::string_view object) const;
  void add(uint64_t bytes);
  void remove_oldest();

  std::filesystem::path folder_;
  uint64_t bound_;
  std::atomic<bool> reported_{false};
  std::mutex mutex_;
  std::optional<uint64_t> held_;  // bytes in the folder, as far as this process knows; guarded by mutex_
};

}  // namespace diptych::detail
