// diptych_launch: what it tells processes, what it passes on, and what it does when one fails.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <regex>
#include <string>

#include "testing/expect_error.h"

namespace {

using diptych::testing::expect_contains;

struct Result {
  int status = -1;
  std::string output;
  double seconds = 0;
};

// Runs the launcher by a shell, standard error joined to standard output.
Result launch(const std::string& arguments) {
  const auto begin = std::chrono::steady_clock::now();
  Result result;
  FILE* pipe = ::popen((std::string(DIPTYCH_LAUNCH) + " " + arguments + " 2>&1").c_str(), "r");
  char buffer[4096];
  for (size_t count; (count = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;) result.output.append(buffer, count);
  const int status = ::pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

Result launch_shell(const std::string& options, const std::string& script) {
  return launch(options + " -- sh -c '" + script + "'");
}

Result launch_member(const std::string& options, const std::string& how) {
  return launch(options + " -- " + DIPTYCH_MEMBER + " " + how);
}

bool has(const Result& result, const std::string& text) { return result.output.find(text) != std::string::npos; }

size_t count(const Result& result, const std::string& text) {
  size_t found = 0;
  for (size_t at = 0; (at = result.output.find(text, at)) != std::string::npos; at += text.size()) ++found;
  return found;
}

TEST(Launch, TellsProcessesWhoTheyAre) {
  const Result result = launch_shell("--processes 2 --prefix",
                                     "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT "
                                     "$TORCHELASTIC_RESTART_COUNT/$TORCHELASTIC_MAX_RESTARTS");
  EXPECT_EQ(result.status, 0);
  std::smatch first, second;
  ASSERT_TRUE(std::regex_search(result.output, first, std::regex("\\[rank 0\\] 0/2 0/2 127.0.0.1 (\\d+) 0/0\n")))
      << result.output;
  ASSERT_TRUE(std::regex_search(result.output, second, std::regex("\\[rank 1\\] 1/2 1/2 127.0.0.1 (\\d+) 0/0\n")))
      << result.output;
  EXPECT_EQ(first[1], second[1]);
}

TEST(Launch, TakesAddressAndPort) {
  const Result result =
      launch_shell("--processes 1 --master-addr 10.1.2.3 --master-port 4567", "echo $MASTER_ADDR:$MASTER_PORT");
  EXPECT_EQ(result.output, "10.1.2.3:4567\n");
}

TEST(Launch, SharesTheCoresUnlessToldOtherwise) {
  EXPECT_NE(launch_shell("--processes 1", "echo threads=$OMP_NUM_THREADS.").output, "threads=.\n");
  ::setenv("OMP_NUM_THREADS", "7", 1);
  EXPECT_EQ(launch_shell("--processes 1", "echo threads=$OMP_NUM_THREADS.").output, "threads=7.\n");
  ::unsetenv("OMP_NUM_THREADS");
}

TEST(Launch, PassesOnWholeLinesAndTheRestAtTheEnd) {
  const Result result =
      launch_shell("--processes 2 --prefix", "for i in 1 2 3; do printf a; sleep 0.05; echo b$i; done; printf end");
  EXPECT_EQ(result.status, 0);
  for (const char* rank : {"[rank 0] ", "[rank 1] "}) {
    for (const char* line : {"ab1\n", "ab2\n", "ab3\n"}) EXPECT_TRUE(has(result, std::string(rank) + line));
    EXPECT_TRUE(has(result, std::string(rank) + "end"));
  }
}

TEST(Launch, PassesArgumentsOnAsTheyAre) {
  EXPECT_EQ(launch("--processes 1 -- printf '%s|' --prefix -- 'a b' ''").output, "--prefix|--|a b||");
}

TEST(Launch, ReturnsTheStatusOfTheProcessThatFailedFirst) {
  const Result result = launch_shell("--processes 3 --grace 60", "[ $RANK = 1 ] && exit 7; sleep 0.5; exit 3");
  EXPECT_EQ(result.status, 7);
  EXPECT_TRUE(has(result, "failed with exit status 7; the others have 60 s to stop\n")) << result.output;
}

TEST(Launch, NamesTheSignalThatEndedAProcess) {
  const Result result = launch_shell("--processes 1", "kill -9 $$");
  EXPECT_EQ(result.status, 128 + SIGKILL);
  EXPECT_TRUE(has(result, "was ended by signal 9 (Killed)\n")) << result.output;
}

TEST(Launch, EndsTheOthersWhenTheGraceIsOver) {
  const Result result = launch_shell("--processes 2 --grace 0.2", "[ $RANK = 0 ] && exit 5; sleep 600");
  EXPECT_EQ(result.status, 5);
  EXPECT_LT(result.seconds, 300);
}

TEST(Launch, KillsThoseThatIgnoreSigterm) {
  const Result result =
      launch_shell("--processes 2 --grace 0.2",
                   "[ $RANK = 0 ] && { sleep 0.5; exit 5; }; trap \"\" TERM; while :; do sleep 0.1; done");
  EXPECT_EQ(result.status, 5);
  EXPECT_LT(result.seconds, 300);
}

TEST(Launch, StartsAllAgainUpToTheLimit) {
  const Result result = launch_shell("--processes 2 --max-restarts 2",
                                     "echo attempt $TORCHELASTIC_RESTART_COUNT; [ $RANK = 1 ] && exit 9; exit 0");
  EXPECT_EQ(result.status, 9);
  for (const char* attempt : {"attempt 0\n", "attempt 1\n", "attempt 2\n"}) EXPECT_EQ(count(result, attempt), 2U);
  EXPECT_TRUE(has(result, "diptych_launch: restarting all processes (2 of 2)\n")) << result.output;
}

TEST(Launch, StopsRestartingWhenAllIsWell) {
  const Result result = launch_shell("--processes 2 --max-restarts 5", "exit $((1 - $TORCHELASTIC_RESTART_COUNT))");
  EXPECT_EQ(result.status, 0);
  EXPECT_TRUE(has(result, "(1 of 5)")) << result.output;
  EXPECT_FALSE(has(result, "(2 of 5)")) << result.output;
}

TEST(Launch, PassesSignalsOnAndDoesNotRestartThen) {
  const Result result = launch_shell("--processes 2 --max-restarts 3 --grace 60",
                                     "trap \"echo stopped; exit 4\" TERM; [ $RANK = 0 ] && { sleep 0.5; kill -TERM "
                                     "$PPID; }; while :; do sleep 0.1; done");
  EXPECT_EQ(result.status, 4);
  EXPECT_EQ(count(result, "stopped\n"), 2U) << result.output;
}

TEST(Launch, RefusesWhatItDoesNotUnderstand) {
  const auto refusal = [](const std::string& arguments) {
    const Result result = launch(arguments);
    EXPECT_EQ(result.status, 2) << arguments;
    return result.output;
  };
  EXPECT_EQ(refusal("--processes 2"), "diptych_launch: error: no program given; write it after --\n");
  EXPECT_EQ(refusal("-- true"), "diptych_launch: error: --processes is required; --help lists the options\n");
  EXPECT_EQ(refusal("--processes 2 --grase 3 -- true"),
            "diptych_launch: error: unknown option --grase; --help lists the options, and the program comes after "
            "--\n");
  expect_contains(refusal("--processes 0 -- true"), "--processes: Value 0 not in range 1 to 4096");
  expect_contains(refusal("--processes 1 --master-port 65536 -- true"), "--master-port: ");
  expect_contains(refusal("--processes 1 --max-restarts -1 -- true"), "--max-restarts: ");
}

TEST(Launch, SaysThatAProgramCannotBeRun) {
  const Result result = launch("--processes 2 -- /no/such/program");
  EXPECT_EQ(result.status, 127);
  EXPECT_EQ(result.output, "diptych_launch: error: '/no/such/program' could not be run: No such file or directory\n");
}

// ---- processes that lose each other ----

constexpr const char* kLost = "UserError: [distributed] rank 0 of 2: a collective failed (ALLREDUCE): ";
constexpr const char* kAdvice =
    "; another process probably ended or stopped answering, see its output; restart all of them from the last "
    "checkpoint\n";

void expect_clear_error(const Result& result) {
  EXPECT_TRUE(has(result, kLost)) << result.output;
  EXPECT_TRUE(has(result, kAdvice)) << result.output;
  EXPECT_FALSE(has(result, "terminate called")) << result.output;
  EXPECT_FALSE(has(result, "unwaited collective calls")) << result.output;
  EXPECT_NE(result.status, 0);
}

TEST(LostProcess, ProcessesThatStayTogetherEndWell) {
  const Result result = launch_member("--processes 2", "");
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_EQ(result.output, "");
}

// The grace is longer than the test may take: the other stops by itself, long before its timeout.
TEST(LostProcess, IsNoticedWhenItIsKilled) {
  const Result result = launch_member("--processes 2 --grace 250", "die 250");
  expect_clear_error(result);
  EXPECT_TRUE(has(result, "Connection closed by peer") || has(result, "Connection reset")) << result.output;
}

TEST(LostProcess, IsNoticedWhenItThrows) {
  const Result result = launch_member("--processes 2 --grace 250", "throw 250");
  expect_clear_error(result);
  EXPECT_TRUE(has(result, "a mistake of rank 1")) << result.output;
}

TEST(LostProcess, IsNoticedWhenItLeavesWithoutAWord) {
  expect_clear_error(launch_member("--processes 2 --grace 250", "exit 250"));
}

TEST(LostProcess, IsNoticedWithinTheTimeoutWhenItHangs) {
  const Result result = launch_member("--processes 2 --grace 1", "hang 2");
  expect_clear_error(result);
  EXPECT_TRUE(has(result, "Timed out waiting")) << result.output;
}

// Rank 0 notices it in the graph of its step, behind which the update stands.
TEST(LostProcess, IsNoticedInAStepWhichThenChangesNothing) {
  EXPECT_EQ(launch_member("--processes 2", "'' 250 in-step").output, "");
  for (const char* how : {"die 250 in-step", "throw 250 in-step"}) {
    const Result result = launch_member("--processes 2 --grace 250", how);
    expect_clear_error(result);
    EXPECT_FALSE(has(result, "changed a parameter")) << result.output;
  }
}

TEST(LostProcess, AProgramOutsideALauncherIsToldToUseOne) {
  FILE* pipe = ::popen("env -u RANK -u WORLD_SIZE " DIPTYCH_MEMBER " 2>&1", "r");
  char buffer[1024] = {};
  (void)!std::fread(buffer, 1, sizeof(buffer) - 1, pipe);
  EXPECT_EQ(WEXITSTATUS(::pclose(pipe)), 3);
  EXPECT_NE(std::string(buffer).find("WORLD_SIZE is not set; start the program with a launcher: diptych_launch"),
            std::string::npos)
      << buffer;
}

}  // namespace
