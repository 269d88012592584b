#include "launch.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <system_error>
#include <thread>

#include "child.h"

namespace launch {
namespace {

using Clock = std::chrono::steady_clock;

int signal_pipe[2];

void say(const std::string& text) { fmt::print(stderr, "diptych_launch: {}\n", text); }

void note_signal(int signal) {
  const int saved = errno;
  const auto byte = static_cast<char>(signal);
  (void)!::write(signal_pipe[1], &byte, 1);
  errno = saved;
}

// From now on signals come out of a pipe, where poll() sees them beside what the processes write.
void catch_signals() {
  if (::pipe(signal_pipe) != 0) throw std::system_error(errno, std::generic_category(), "cannot create a pipe");
  for (const int end : signal_pipe) {
    ::fcntl(end, F_SETFD, FD_CLOEXEC);
    ::fcntl(end, F_SETFL, O_NONBLOCK);
  }
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
}

// Asks the system for a port. Another program could take it before rank 0 does, which would say so.
int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t length = sizeof(address);
  const bool is_bound = socket >= 0 && ::bind(socket, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                        ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  const int error = errno;
  if (socket >= 0) ::close(socket);
  if (!is_bound) throw std::system_error(error, std::generic_category(), "cannot find a free port");
  return ntohs(address.sin_port);
}

std::string describe(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("failed with exit status {}", WEXITSTATUS(status));
}

int exit_status(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

/// The processes of one attempt.
class Group {
 public:
  Group(const Options& options, int attempt) : options_(options), attempt_(attempt) {}
  /// Returns the exit status.
  int run();
  bool is_interrupted() const { return is_interrupted_; }

 private:
  void start_all();
  void wait_for_events();
  void handle(int signal);
  void collect();
  void press();
  void send(int signal) const;
  void begin_grace() { deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(grace()); }
  std::chrono::duration<double> grace() const { return std::chrono::duration<double>(options_.grace); }
  bool any_runs() const {
    return std::any_of(children_.begin(), children_.end(), [](const Child& child) { return child.is_running; });
  }

  const Options& options_;
  int attempt_;
  std::vector<Child> children_;
  int status_ = 0;  ///< of the first that failed
  std::optional<Clock::time_point> deadline_;
  bool is_terminated_ = false;
  bool is_interrupted_ = false;
};

void Group::start_all() {
  const std::string port = std::to_string(options_.port != 0 ? options_.port : free_port());
  const std::string size = std::to_string(options_.processes);
  // Else the threads of all processes would fight for the same cores; torchrun gives each one.
  const unsigned threads =
      std::max(1U, std::thread::hardware_concurrency() / static_cast<unsigned>(options_.processes));
  for (int i = 0; i < options_.processes; ++i) {
    const std::string rank = std::to_string(i);
    Variables variables{{"RANK", rank},
                        {"WORLD_SIZE", size},
                        {"LOCAL_RANK", rank},
                        {"LOCAL_WORLD_SIZE", size},
                        {"MASTER_ADDR", options_.address},
                        {"MASTER_PORT", port},
                        {"TORCHELASTIC_RESTART_COUNT", std::to_string(attempt_)},
                        {"TORCHELASTIC_MAX_RESTARTS", std::to_string(options_.max_restarts)}};
    if (std::getenv("OMP_NUM_THREADS") == nullptr) variables.emplace_back("OMP_NUM_THREADS", std::to_string(threads));
    children_.push_back(start(options_.command, variables, options_.prefix ? fmt::format("[rank {}] ", i) : ""));
  }
}

int Group::run() {
  try {
    start_all();
  } catch (...) {
    send(SIGKILL);
    throw;
  }
  while (any_runs()) {
    wait_for_events();
    collect();
    press();
  }
  for (Child& child : children_) {
    for (Stream& stream : child.streams) stream.forward();
  }
  return status_;
}

// Returns when a process wrote or ended, a signal came, or the deadline is there.
void Group::wait_for_events() {
  std::vector<pollfd> waited{{signal_pipe[0], POLLIN, 0}};
  for (const Child& child : children_) {
    for (const Stream& stream : child.streams) {
      if (stream.descriptor() >= 0) waited.push_back({stream.descriptor(), POLLIN, 0});
    }
  }
  int timeout = -1;
  if (deadline_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline_ - Clock::now());
    timeout = static_cast<int>(std::max<int64_t>(0, left.count()));
  }
  ::poll(waited.data(), waited.size(), timeout);
  char signal = 0;
  while (::read(signal_pipe[0], &signal, 1) == 1) handle(signal);
  for (Child& child : children_) {
    for (Stream& stream : child.streams) stream.forward();
  }
}

// The first signal is passed on; a second one means business.
void Group::handle(int signal) {
  if (signal == SIGCHLD) return;
  send(is_interrupted_ ? SIGKILL : signal);
  is_interrupted_ = true;
  if (!deadline_) begin_grace();
}

void Group::collect() {
  for (size_t i = 0; i < children_.size(); ++i) {
    int status = 0;
    if (!children_[i].is_running || ::waitpid(children_[i].pid, &status, WNOHANG) != children_[i].pid) continue;
    children_[i].is_running = false;
    if (status == 0 || status_ != 0) continue;
    status_ = exit_status(status);
    if (is_interrupted_) continue;
    say(fmt::format("rank {} (process {}) {}{}", i, children_[i].pid, describe(status),
                    any_runs() ? fmt::format("; the others have {} s to stop", options_.grace) : ""));
    if (!deadline_) begin_grace();
  }
}

// Ends the processes that did not stop by themselves.
void Group::press() {
  if (!deadline_ || Clock::now() < *deadline_ || !any_runs()) return;
  send(is_terminated_ ? SIGKILL : SIGTERM);
  is_terminated_ = true;
  begin_grace();
}

void Group::send(int signal) const {
  for (const Child& child : children_) {
    if (child.is_running) ::kill(-child.pid, signal);
  }
}

}  // namespace

int launch(const Options& options) {
  catch_signals();
  for (int attempt = 0;; ++attempt) {
    Group group(options, attempt);
    const int status = group.run();
    if (status == 0 || group.is_interrupted() || attempt == options.max_restarts) return status;
    say(fmt::format("restarting all processes ({} of {})", attempt + 1, options.max_restarts));
  }
}

}  // namespace launch
