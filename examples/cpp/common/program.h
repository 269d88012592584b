// What every training program shares: its options, its exit codes, and how errors are shown.
#pragma once
#include <diptych/backends/builtin_backends.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace examples {

/// What the user chooses on the command line; a program fills in its own defaults first.
struct TrainOptions {
  std::string name = {};        ///< of the program
  std::string unit = "tokens";  ///< what speed is counted in
  int64_t steps = 1000;
  int64_t batch = 8;
  double lr = 1e-3;
  double weight_decay = 0.1;
  uint64_t seed = 1;
  std::string data = {};
  std::string out = {};     ///< folder of the checkpoints, the loss curve and the report
  std::string report = {};  ///< path; empty: report.html in `out`
  std::string backend = diptych::default_backend();
  std::string partition = "min_cut";
  bool resume = false, fresh = false;
  int64_t compare_eager = 0;  ///< steps to run again in eager
  int64_t checkpoint_every = 200;
  nlohmann::json run = {};  ///< what decides the result, by option name; a resumed run must agree with it
};

/// Option groups of the help page. What is in kRunGroup goes into TrainOptions::run.
inline constexpr const char* kRunGroup = "What is trained";
inline constexpr const char* kHowGroup = "How it runs";

/// Adds the options that all programs have, with `options` as the defaults.
void add_train_options(CLI::App& app, TrainOptions& options);

/// Adds a whole number of at least 1 to the group "What is trained".
void add_size_option(CLI::App& app, const std::string& name, int64_t& value, const std::string& help);

/// Path of a file in the repository's data folder.
std::string data_path(const std::string& file);

/// Parses the command line and runs `body`. Returns the exit code: body's own, 2 for a mistake in the command line or
/// any other UserError, 1 for anything else; errors are one line on standard error.
int run_program(CLI::App& app, TrainOptions& options, int argc, char** argv, const std::function<int()>& body);

}  // namespace examples
