#include "diptych/backend/cache_folder.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <system_error>
#include <utility>
#include <vector>

#include "diptych/base/log.h"
#include "diptych/graph/checksum.h"

namespace diptych::detail {
namespace {

namespace fs = std::filesystem;

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
std::vector<Held> files_of(const fs::path& folder, std::string_view mark) {
  std::vector<Held> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().find(mark) == std::string::npos) continue;
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

fs::path user_cache_folder(std::string_view name) {
  if (const auto own = variable("DIPTYCH_CACHE_DIR"); !own.empty()) return fs::path(own) / name;
  if (const auto caches = variable("XDG_CACHE_HOME"); !caches.empty()) return fs::path(caches) / "diptych" / name;
  if (const auto home = variable("HOME"); !home.empty()) return fs::path(home) / ".cache" / "diptych" / name;
  return {};
}

fs::path CacheFolder::path_of(std::string_view key) const {
  return folder_ / fmt::format("{:016x}{}", checksum(key), kind_.mark);
}

std::optional<std::string> CacheFolder::load(std::string_view key) const {
  if (folder_.empty()) return std::nullopt;
  const auto path = path_of(key);
  auto [content, fault] = read_entry({kind_.magic, path, key});
  if (!fault.empty()) {
    log(Log::kCache, "{}: '{}' is of no use and is made again: {}", kind_.backend, path.string(), fault);
  }
  std::error_code ignored;
  if (content) fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
  return std::move(content);
}

std::string CacheFolder::write(std::string_view key, std::string_view content) const {
  std::error_code error;
  if (fs::create_directories(folder_, error)) fs::permissions(folder_, fs::perms::owner_all, error);
  return error ? error.message() : write_entry({kind_.magic, path_of(key), key}, content);
}

bool CacheFolder::store(std::string_view key, std::string_view content) {
  if (folder_.empty()) return false;
  const auto fault = write(key, content);
  if (fault.empty()) {
    add(kind_.magic.size() + 32 + key.size() + content.size());
  } else if (!reported_.exchange(true)) {
    log(Log::kCache, "{}: {} are not kept in '{}': {}", kind_.backend, kind_.what, folder_.string(), fault);
  }
  return fault.empty();
}

void CacheFolder::add(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  held_ = held_ ? *held_ + bytes : bytes_of(files_of(folder_, kind_.mark));
  if (*held_ > kind_.bound) remove_oldest();
}

// Down to three quarters, so that a full folder is not read through for each new entry.
void CacheFolder::remove_oldest() {
  auto files = files_of(folder_, kind_.mark);
  std::sort(files.begin(), files.end(), [](const Held& a, const Held& b) { return a.used < b.used; });
  held_ = bytes_of(files);
  if (*held_ <= kind_.bound) return;
  std::error_code ignored;
  for (const auto& file : files) {
    if (*held_ <= kind_.bound / 4 * 3) break;
    fs::remove(file.path, ignored);
    *held_ -= file.bytes;
  }
  log(Log::kCache, "{}: '{}' held more than {} bytes; the oldest {} were removed", kind_.backend, folder_.string(),
      kind_.bound, kind_.what);
}

}  // namespace diptych::detail
