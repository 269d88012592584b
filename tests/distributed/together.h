// Several processes that run the same tests in the same order.
#pragma once
#include <gtest/gtest.h>

#include <optional>

#include "diptych/distributed/process.h"

namespace diptych::distributed {

inline std::optional<Process>& joined() {
  static std::optional<Process> process;
  return process;
}

/// This process among them, from the start of the tests to their end.
inline const Process& process() { return *joined(); }

class Joined : public ::testing::Environment {
 public:
  void SetUp() override { joined().emplace(ProcessOptions{.timeout = 120}); }
  void TearDown() override { joined().reset(); }
};
[[maybe_unused]] inline auto* const kJoined = ::testing::AddGlobalTestEnvironment(new Joined);

}  // namespace diptych::distributed
