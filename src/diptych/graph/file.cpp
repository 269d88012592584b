#include "diptych/graph/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "diptych/base/error.h"

namespace diptych::detail {
namespace {

[[noreturn]] void fail(std::string_view who, const std::string& path, int error) {
  detail::throw_user_error(
      fmt::format("[{}] '{}': {}; check the path and its permissions", who, path, std::strerror(error)));
}

// Closes the file when destroyed; holds a descriptor, not a stream, because fsync() takes one.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }
  int close() {
    const int result = ::close(number_);
    number_ = -1;
    return result;
  }

 private:
  int number_;
};

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

bool write_parts(const std::string& path, std::initializer_list<std::string_view> parts) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (file.number() < 0) return false;
  for (const auto part : parts) {
    if (!write_all(file.number(), part)) return false;
  }
  return ::fsync(file.number()) == 0 && file.close() == 0;
}

}  // namespace

std::string read_file(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number() < 0) fail("load", path, errno);
  struct stat info {};
  if (::fstat(file.number(), &info) != 0) fail("load", path, errno);
  if (S_ISDIR(info.st_mode)) fail("load", path, EISDIR);
  std::string bytes;
  char buffer[1 << 16];
  while (true) {
    const ssize_t count = ::read(file.number(), buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("load", path, errno);
    if (count == 0) return bytes;
    bytes.append(buffer, static_cast<size_t>(count));
  }
}

void write_file_atomically(const std::string& path, std::initializer_list<std::string_view> parts) {
  static std::atomic<unsigned> counter{0};
  const auto temporary = fmt::format("{}.tmp-{}-{}", path, ::getpid(), counter.fetch_add(1));
  if (!write_parts(temporary, parts) || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    fail("save", path, error);
  }
  // The rename itself must reach the disk too; a failure is ignored, since not every file system can sync a folder.
  const auto slash = path.rfind('/');
  const auto folder = slash == path.npos ? std::string(".") : path.substr(0, slash + 1);
  const Descriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.number() >= 0) ::fsync(directory.number());
}

}  // namespace diptych::detail
