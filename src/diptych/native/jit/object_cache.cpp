#include "diptych/native/jit/object_cache.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <system_error>
#include <utility>
#include <vector>

#include "diptych/backend/cache_entry.h"
#include "diptych/base/environment.h"
#include "diptych/base/switches.h"
#include "diptych/graph/checksum.h"

namespace diptych::detail {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "diptych kernel 1\n";
// In the name of each entry, and of what is on its way to be one; no other file of the folder is touched.
constexpr std::string_view kMark = ".kernel";

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

struct Held {
  fs::file_time_type used;
  uint64_t bytes = 0;
  fs::path path;
};

// The files of a folder. Those that vanish meanwhile are left out: other processes have the same folder.
std::vector<Held> files_of(const fs::path& folder) {
  std::vector<Held> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().find(kMark) == std::string::npos) continue;
    std::error_code gone;
    Held file{it->last_write_time(gone), gone ? 0 : it->file_size(gone), it->path()};
    if (!gone) files.push_back(std::move(file));
  }
  return files;
}

uint64_t bytes_of(const std::vector<Held>& files) {
  uint64_t bytes = 0;
  for (const auto& file : files) bytes += file.bytes;
  return bytes;
}

}  // namespace

fs::path kernel_folder() {
  if (const auto own = variable("DIPTYCH_CACHE_DIR"); !own.empty()) return fs::path(own) / "kernels";
  if (const auto caches = variable("XDG_CACHE_HOME"); !caches.empty()) return fs::path(caches) / "diptych" / "kernels";
  if (const auto home = variable("HOME"); !home.empty()) return fs::path(home) / ".cache" / "diptych" / "kernels";
  return {};
}

bool keeps_kernels() { return is_on("DIPTYCH_KERNEL_CACHE", true); }

ObjectCache::ObjectCache(fs::path folder, uint64_t bound) : folder_(std::move(folder)), bound_(bound) {}

fs::path ObjectCache::path_of(std::string_view key) const {
  return folder_ / fmt::format("{:016x}{}", checksum(key), kMark);
}

std::optional<std::string> ObjectCache::load(std::string_view key) const {
  if (folder_.empty()) return std::nullopt;
  const auto path = path_of(key);
  auto [content, fault] = read_entry({kMagic, path, key});
  if (!fault.empty()) log(Log::kCache, "native: '{}' is of no use and is made again: {}", path.string(), fault);
  std::error_code ignored;
  if (content) fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
  return std::move(content);
}

std::string ObjectCache::write(std::string_view key, std::string_view object) const {
  std::error_code error;
  if (fs::create_directories(folder_, error)) fs::permissions(folder_, fs::perms::owner_all, error);
  return error ? error.message() : write_entry({kMagic, path_of(key), key}, object);
}

void ObjectCache::store(std::string_view key, std::string_view object) {
  if (folder_.empty()) return;
  const auto fault = write(key, object);
  if (fault.empty()) return add(kMagic.size() + 32 + key.size() + object.size());
  if (reported_.exchange(true)) return;
  log(Log::kCache, "native: kernels are not kept in '{}': {}", folder_.string(), fault);
}

void ObjectCache::add(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  held_ = held_ ? *held_ + bytes : bytes_of(files_of(folder_));
  if (*held_ > bound_) remove_oldest();
}

// Down to three quarters, so that a full folder is not read through for each new entry.
void ObjectCache::remove_oldest() {
  auto files = files_of(folder_);
  std::sort(files.begin(), files.end(), [](const Held& a, const Held& b) { return a.used < b.used; });
  held_ = bytes_of(files);
  if (*held_ <= bound_) return;
  std::error_code ignored;
  for (const auto& file : files) {
    if (*held_ <= bound_ / 4 * 3) break;
    fs::remove(file.path, ignored);
    *held_ -= file.bytes;
  }
  log(Log::kCache, "native: '{}' held more than {} bytes; the oldest kernels were removed", folder_.string(), bound_);
}

}  // namespace diptych::detail
