// Starts the processes of one program, watches over them, and starts them again if asked to.
#pragma once
#include <string>
#include <vector>

namespace launch {

struct Options {
  int processes = 1;
  std::string address = "127.0.0.1";  ///< where the processes meet
  int port = 0;                       ///< 0: one that is free
  int max_restarts = 0;               ///< how often all processes are started again after one has failed
  double grace = 10;                  ///< seconds that the others have to stop by themselves after one has failed
  bool prefix = false;                ///< whether lines begin with the rank of the process that wrote them
  std::vector<std::string> command;   ///< the program and its arguments
};

/// Runs the command in `processes` processes, which find each other by torchrun's environment variables, and forwards
/// what they write line by line, and SIGINT, SIGTERM and SIGHUP to them. When one fails, the others get `grace` seconds
/// to notice, then SIGTERM, and as long again later SIGKILL. Returns the exit status: 0, or that of the process that
/// failed first (128 + the signal that ended it). Errors: std::system_error, std::runtime_error if none can be started.
int launch(const Options& options);

}  // namespace launch
