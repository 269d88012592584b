// One process alone: what it reads from its launcher, and what it refuses.
#include "diptych/distributed/process.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <torch/types.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "diptych/distributed/gradient_reduction.h"
#include "testing/expect_error.h"

namespace diptych::distributed {
namespace {

using testing::message_of;

constexpr const char* kLaunchers =
    "start the program with a launcher: diptych_launch --processes 2 -- <program>, or torchrun --no-python "
    "--nproc_per_node 2 <program>";

// A port that is free, and stays so while this lives unless somebody asks for it by number.
std::string free_port() {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t length = sizeof(address);
  EXPECT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
  ::close(listener);
  return std::to_string(ntohs(address.sin_port));
}

class ProcessAlone : public ::testing::Test {
 protected:
  void SetUp() override {
    set({{"RANK", "0"},
         {"WORLD_SIZE", "1"},
         {"LOCAL_RANK", "0"},
         {"LOCAL_WORLD_SIZE", "1"},
         {"MASTER_ADDR", "127.0.0.1"},
         {"MASTER_PORT", free_port()}});
    ::unsetenv("TORCHELASTIC_USE_AGENT_STORE");
    ::unsetenv("TORCHELASTIC_RESTART_COUNT");
  }
  static void set(const std::vector<std::pair<std::string, std::string>>& variables) {
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  }
};

using EnvironmentAlone = ProcessAlone;

TEST_F(EnvironmentAlone, IsReadFromTorchrunsVariables) {
  set({{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}, {"MASTER_PORT", "29500"}});
  set({{"MASTER_ADDR", "trainer-0"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RESTART_COUNT", "2"}});
  const auto found = Environment::read();
  EXPECT_EQ(std::tuple(found.rank, found.size, found.local_rank, found.local_size), std::tuple(3, 8, 1, 2));
  EXPECT_EQ(std::tuple(found.address, found.port), std::tuple("trainer-0", 29500));
  EXPECT_TRUE(found.launcher_keeps_store);
  EXPECT_EQ(found.restart, 2);
}

TEST_F(EnvironmentAlone, NamesTheVariableThatIsMissing) {
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    SetUp();
    ::unsetenv(name);
    EXPECT_EQ(message_of([] { Environment::read(); }),
              fmt::format("[distributed] the environment variable {} is not set; {}", name, kLaunchers));
  }
}

TEST_F(EnvironmentAlone, NamesTheVariableThatMakesNoSense) {
  struct Case {
    const char* name;
    const char* value;
    const char* range;
  };
  for (const auto& [name, value, range] : std::vector<Case>{{"RANK", "one", "0 to 0"},
                                                            {"RANK", "1", "0 to 0"},
                                                            {"RANK", "-1", "0 to 0"},
                                                            {"RANK", "0 ", "0 to 0"},
                                                            {"WORLD_SIZE", "0", "1 to 2147483647"},
                                                            {"WORLD_SIZE", "99999999999", "1 to 2147483647"},
                                                            {"LOCAL_WORLD_SIZE", "2", "1 to 1"},
                                                            {"MASTER_PORT", "65536", "1 to 65535"}}) {
    SetUp();
    set({{name, value}});
    EXPECT_EQ(message_of([] { Environment::read(); }),
              fmt::format("[distributed] the environment variable {} is '{}', expected a whole number from {}; {}",
                          name, value, range, kLaunchers));
  }
}

TEST_F(ProcessAlone, IsAGroupOfOne) {
  const auto process = init({.timeout = 20});
  EXPECT_EQ(process.size(), 1);
  process.barrier();
  const auto x = torch::tensor({1.5, 2.5});
  EXPECT_TRUE(process.all_reduce(x).equal(x));
}

TEST_F(ProcessAlone, MayLeaveAndJoinAgain) {
  for (int i = 0; i < 3; ++i) {
    set({{"MASTER_PORT", free_port()}});
    const auto process = init({.timeout = 20});
    EXPECT_EQ(process.all_reduce(torch::ones({2})).sum().item<double>(), 2);
  }
}

// What gloo does when another process has just ended.
TEST_F(ProcessAlone, OutlivesAWriteToAPeerThatIsGone) {
  const auto write_to_nobody = [] {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0) ::_exit(1);
    ::close(ends[1]);
    const ssize_t written = ::write(ends[0], "x", 1);
    ::_exit(written == -1 && errno == EPIPE ? 0 : 2);
  };
  ::signal(SIGPIPE, SIG_DFL);
  EXPECT_EXIT(write_to_nobody(), ::testing::KilledBySignal(SIGPIPE), "");
  const auto process = init({.timeout = 20});
  EXPECT_EXIT(write_to_nobody(), ::testing::ExitedWithCode(0), "");
}

TEST_F(ProcessAlone, LeavesTheProgramsOwnHandler) {
  ::signal(SIGPIPE, SIG_IGN);
  const auto process = init({.timeout = 20});
  EXPECT_EQ(::signal(SIGPIPE, SIG_DFL), SIG_IGN);
}

TEST_F(ProcessAlone, IsAMemberOnce) {
  const auto process = init({.timeout = 20});
  EXPECT_EQ(message_of([] { init(); }),
            "[distributed] this program has already joined its group; keep the first Process and pass it on");
}

TEST_F(ProcessAlone, RefusesABackendThatIsNotThere) {
  EXPECT_EQ(
      message_of([] { init({.backend = "nccl"}); }),
      "[distributed] backend 'nccl' is not available: this build has only gloo, for the CPU; leave the option out");
}

TEST_F(ProcessAlone, RefusesATimeoutThatIsNoTime) {
  for (const double timeout : {0.0, -1.0, std::nan("")}) {
    EXPECT_EQ(message_of([&] { init({.timeout = timeout}); }),
              fmt::format("[distributed] the timeout is {} s, expected more than 0 and up to 1e+07", timeout));
  }
}

TEST_F(ProcessAlone, SaysWhomItDidNotMeet) {
  set({{"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}});
  const std::string port = std::getenv("MASTER_PORT");
  const std::string text = message_of([] { init({.timeout = 1}); });
  EXPECT_EQ(text.find("[distributed] rank 0 of 2 did not meet the others at 127.0.0.1:" + port + " within 1 s: "), 0U)
      << text;
  EXPECT_NE(text.find("; check that all processes run, that rank 0 can be reached there, and that the port is free"),
            std::string::npos)
      << text;
}

TEST_F(ProcessAlone, RefusesTheMeanOfIntegers) {
  const auto process = init({.timeout = 20});
  EXPECT_EQ(message_of([&] { process.all_reduce(torch::ones({2}, torch::kLong)); }),
            "[distributed] got a tensor of dtype Long to average, expected a floating-point one; convert it, or ask "
            "for the sum");
  EXPECT_EQ(process.all_reduce(torch::ones({2}, torch::kLong), Reduce::kSum).sum().item<int64_t>(), 2);
}

TEST_F(ProcessAlone, ReducesDenseGradientsOnly) {
  const auto process = init({.timeout = 20});
  EXPECT_EQ(message_of([&] {
              GradientReduction(process, {torch::ones({2}), torch::eye(2).to_sparse()});
            }),
            "[distributed] parameter 1 of a GradientReduction is sparse, expected a dense tensor");
  EXPECT_EQ(message_of([&] { GradientReduction(process, {at::Tensor()}); }),
            "[distributed] parameter 0 of a GradientReduction is undefined, expected a dense tensor");
  GradientReduction reduction(process, {torch::eye(2)});
  EXPECT_EQ(
      message_of([&] { reduction.finish({torch::eye(2).to_sparse()}); }),
      "[distributed] the gradient of parameter 0 is sparse, which buckets can't hold; make it dense (an embedding "
      "without sparse=true)");
}

TEST_F(ProcessAlone, ReducesTheOptimizersParametersOnly) {
  const auto process = init({.timeout = 20});
  GradientReduction reduction(process, {torch::eye(2)});
  EXPECT_EQ(message_of([&] { reduction.finish({}); }),
            "[distributed] a GradientReduction of 1 parameters got 0 gradients; construct it with the optimizer's "
            "parameters, in the optimizer's order");
}

}  // namespace
}  // namespace diptych::distributed
