#include "child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <array>
#include <cerrno>
#include <cstdlib>
#include <system_error>

namespace launch {
namespace {

[[noreturn]] void fail(const std::string& what, int error = errno) {
  throw std::system_error(error, std::generic_category(), what);
}

struct Pipe {
  Pipe() {
    if (::pipe(ends.data()) != 0) fail("cannot create a pipe");
    for (const int end : ends) ::fcntl(end, F_SETFD, FD_CLOEXEC);
  }
  std::array<int, 2> ends;  ///< to read, to write
};

void write_all(int to, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t written = ::write(to, data, size);
    if (written < 0 && errno != EINTR && errno != EAGAIN) return;
    if (written < 0) continue;
    data += written;
    size -= static_cast<size_t>(written);
  }
}

// Runs in the new process; returns only if the program can't be run.
void become(const std::vector<std::string>& command, const Variables& variables, const Pipe& out, const Pipe& err) {
  ::setpgid(0, 0);
#ifdef __linux__
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
#endif
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(out.ends[1], STDOUT_FILENO);
  ::dup2(err.ends[1], STDERR_FILENO);
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
  ::unsetenv("TORCHELASTIC_USE_AGENT_STORE");
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
}

}  // namespace

Stream::Stream(int from, int to, std::string prefix) : from_(from), to_(to), prefix_(std::move(prefix)) {
  ::fcntl(from_, F_SETFL, O_NONBLOCK);
}

Stream::Stream(Stream&& other) noexcept
    : from_(std::exchange(other.from_, -1)),
      to_(other.to_),
      prefix_(std::move(other.prefix_)),
      pending_(std::move(other.pending_)) {}

Stream::~Stream() {
  if (from_ < 0) return;
  write_lines(/*is_end=*/true);
  ::close(from_);
}

void Stream::forward() {
  std::array<char, 65536> buffer;
  while (from_ >= 0) {
    const ssize_t count = ::read(from_, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count > 0) pending_.append(buffer.data(), static_cast<size_t>(count));
    write_lines(/*is_end=*/count <= 0);
    if (count > 0) continue;
    ::close(from_);
    from_ = -1;
  }
}

// A carriage return ends a line too: it is how progress is shown.
void Stream::write_lines(bool is_end) {
  constexpr size_t kLongestLine = size_t{1} << 20;
  std::string lines;
  size_t begin = 0;
  while (begin < pending_.size()) {
    const size_t end = pending_.find_first_of("\n\r", begin);
    const bool is_cut = end == std::string::npos;
    if (is_cut && !is_end && pending_.size() - begin < kLongestLine) break;
    const size_t next = is_cut ? pending_.size() : end + 1;
    lines += prefix_;
    lines.append(pending_, begin, next - begin);
    begin = next;
  }
  pending_.erase(0, begin);
  write_all(to_, lines.data(), lines.size());
}

Child start(const std::vector<std::string>& command, const Variables& variables, const std::string& prefix) {
  Pipe out, err, failure;  // what could not be run is told through the last, which closes when the program runs
  const pid_t pid = ::fork();
  if (pid < 0) fail("cannot start a process");
  if (pid == 0) {
    become(command, variables, out, err);
    const int error = errno;
    write_all(failure.ends[1], reinterpret_cast<const char*>(&error), sizeof(error));
    ::_exit(127);
  }
  for (const Pipe* pipe : {&out, &err, &failure}) ::close(pipe->ends[1]);
  int error = 0;
  ssize_t count = 0;
  do {
    count = ::read(failure.ends[0], &error, sizeof(error));
  } while (count < 0 && errno == EINTR);
  ::close(failure.ends[0]);
  Child child{.pid = pid};
  child.streams.emplace_back(out.ends[0], STDOUT_FILENO, prefix);
  child.streams.emplace_back(err.ends[0], STDERR_FILENO, prefix);
  if (count == 0) return child;
  ::waitpid(pid, nullptr, 0);
  fail("'" + command[0] + "' could not be run", error);
}

}  // namespace launch
