// One process that the launcher has started.
#pragma once
#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace launch {

using Variables = std::vector<std::pair<std::string, std::string>>;

/// Passes on what a process writes to one stream, in whole lines.
class Stream {
 public:
  /// Takes over the descriptor `from`.
  Stream(int from, int to, std::string prefix);
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&&) = delete;
  ~Stream();

  int descriptor() const { return from_; }  ///< -1 at its end
  /// Passes on what is there now; does not wait.
  void forward();

 private:
  void write_lines(bool is_end);

  int from_, to_;
  std::string prefix_, pending_;
};

struct Child {
  pid_t pid = -1;
  bool is_running = true;
  std::vector<Stream> streams = {};
};

/// Starts a program in a process group of its own, with these environment variables besides the launcher's; it reads
/// nothing, and is told to stop if the launcher dies. Errors: std::system_error if it can't be started.
Child start(const std::vector<std::string>& command, const Variables& variables, const std::string& prefix);

}  // namespace launch
