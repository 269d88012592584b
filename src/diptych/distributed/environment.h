// What a launcher tells a process of the group that it belongs to.
#pragma once
#include <cstdint>
#include <string>

namespace diptych::distributed {

/// torchrun's environment variables, which diptych_launch sets too.
struct Environment {
  int rank = 0;                       ///< RANK: of this process, from 0
  int size = 1;                       ///< WORLD_SIZE: processes in all
  int local_rank = 0;                 ///< LOCAL_RANK: of this process on its machine
  int local_size = 1;                 ///< LOCAL_WORLD_SIZE: processes on its machine
  std::string address = "127.0.0.1";  ///< MASTER_ADDR: where the processes meet
  uint16_t port = 0;                  ///< MASTER_PORT
  bool launcher_keeps_store = false;  ///< TORCHELASTIC_USE_AGENT_STORE: the launcher serves the store, not rank 0
  int restart = 0;                    ///< TORCHELASTIC_RESTART_COUNT: how many times the launcher has started all again

  /// Reads the variables of this process. Errors: UserError names one that is missing or makes no sense.
  static Environment read();
};

}  // namespace diptych::distributed
