// diptych_launch: runs a program in several processes that train together.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <system_error>

#include "launch.h"

namespace {

constexpr int kWrongUse = 2;
constexpr int kNotRun = 127;  // as shells say that a program can't be run

int fail(const std::string& text, int code) {
  fmt::print(stderr, "diptych_launch: error: {}\n", text);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  launch::Options options;
  CLI::App app{
      "Runs a program in several processes on this machine, which find each other by torchrun's environment "
      "variables (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT): "
      "diptych_launch [options] -- program [arguments]",
      "diptych_launch"};
  app.prefix_command();
  app.option_defaults()->always_capture_default();
  app.add_option("--processes", options.processes, "How many processes")->check(CLI::Range(1, 4096))->required();
  app.add_option("--master-addr", options.address, "Address at which the processes meet");
  app.add_option("--master-port", options.port, "Port at which they meet; 0 for a free one")
      ->check(CLI::Range(0, 65535));
  app.add_option("--max-restarts", options.max_restarts,
                 "How often all processes are restarted when one fails; programs continue from their checkpoints")
      ->check(CLI::NonNegativeNumber);
  app.add_option(
         "--grace", options.grace,
         "When one process fails: seconds that the others have to stop by themselves, before SIGTERM and then SIGKILL")
      ->check(CLI::Range(0.0, 1e6));
  app.add_flag("--prefix", options.prefix, "Begin each line with the rank of the process that wrote it");
  try {
    app.parse(argc, argv);
    options.command = app.remaining();
    if (!options.command.empty() && options.command.front() == "--") options.command.erase(options.command.begin());
    if (options.command.empty()) return fail("no program given; write it after --", kWrongUse);
    if (options.command.front().starts_with("-")) {
      return fail(fmt::format("unknown option {}; --help lists the options, and the program comes after --",
                              options.command.front()),
                  kWrongUse);
    }
    return launch::launch(options);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return fail(std::string(error.what()) + "; --help lists the options", kWrongUse);
  } catch (const std::exception& error) {
    return fail(error.what(), kNotRun);
  }
}
