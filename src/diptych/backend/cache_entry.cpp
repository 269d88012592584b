#include "diptych/backend/cache_entry.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

#include "diptych/graph/checksum.h"

namespace diptych::detail {
namespace {

// What stands before the content: magic, checksum of the rest, length of the key, key.
constexpr size_t kNumber = 16;

std::string entry_text(const CacheEntry& entry, std::string_view content) {
  const std::string rest = fmt::format("{:016x}{}{}", entry.key.size(), entry.key, content);
  return fmt::format("{}{:016x}{}", entry.magic, checksum(rest), rest);
}

// Returns what is wrong with an entry's text, or nothing.
std::string find_fault(const CacheEntry& entry, std::string_view text) {
  const size_t header = entry.magic.size() + kNumber;
  if (text.size() < header + kNumber || !text.starts_with(entry.magic)) return "it is not an entry";
  const std::string_view rest = text.substr(header);
  if (fmt::format("{:016x}", checksum(rest)) != text.substr(entry.magic.size(), kNumber)) {
    return "its checksum is wrong";
  }
  const bool own = rest.starts_with(fmt::format("{:016x}{}", entry.key.size(), entry.key));
  return own ? "" : "it belongs to another program";
}

// Reads an open file, if it is one that may be trusted. Returns why not, or nothing.
std::string read_trusted(int file, std::string& text) {
  struct stat about {};
  if (fstat(file, &about) != 0) return std::strerror(errno);
  if (!S_ISREG(about.st_mode)) return "it is not a file";
  if (about.st_uid != geteuid() && about.st_uid != 0) return "another user wrote it";
  text.resize(static_cast<size_t>(about.st_size));
  for (size_t done = 0; done < text.size();) {
    const ssize_t got = read(file, text.data() + done, text.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return "it cannot be read to its end";
    done += static_cast<size_t>(got);
  }
  return "";
}

}  // namespace

CacheContent read_entry(const CacheEntry& entry) {
  const int file = open(entry.path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {std::nullopt, errno == ENOENT || errno == ENOTDIR ? "" : std::strerror(errno)};
  std::string text;
  std::string fault = read_trusted(file, text);
  close(file);
  if (fault.empty()) fault = find_fault(entry, text);
  if (!fault.empty()) return {std::nullopt, std::move(fault)};
  return {text.substr(entry.magic.size() + 2 * kNumber + entry.key.size()), ""};
}

std::string write_entry(const CacheEntry& entry, std::string_view content) {
  static std::atomic<uint64_t> count = 0;
  const std::filesystem::path temporary = fmt::format("{}.{}.{}", entry.path.string(), getpid(), count++);
  std::string fault;
  {
    std::ofstream file(temporary, std::ios::binary);
    file << entry_text(entry, content);
    file.close();
    if (!file.good()) fault = "the folder is full or read-only";
  }
  std::error_code error;
  if (fault.empty()) std::filesystem::rename(temporary, entry.path, error);
  if (error) fault = error.message();
  if (!fault.empty()) std::filesystem::remove(temporary, error);
  return fault;
}

}  // namespace diptych::detail
