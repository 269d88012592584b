// What every training program shares: its options, its exit codes, and how errors are shown.
#pragma once
#include <diptych/backends/builtin_backends.h>

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace CLI {
class App;
}

namespace examples {

/// What decides the result of a run, by option name, as it was given.
using RunOptions = std::map<std::string, std::string>;

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
  RunOptions run = {};  ///< a resumed run must agree with it
};

/// Option groups of the help page. What is in kRunGroup goes into TrainOptions::run.
inline constexpr const char* kRunGroup = "What is trained";
inline constexpr const char* kHowGroup = "How it runs";

/// Makes a command line. Its class is slow to compile: only programs that use it themselves include it.
std::shared_ptr<CLI::App> make_app(const std::string& description);

/// Adds the options that all programs have, with `options` as the defaults.
void add_train_options(CLI::App& app, TrainOptions& options);

/// Adds a whole number of at least 1 to the group "What is trained".
void add_size_option(CLI::App& app, const std::string& name, int64_t& value, const std::string& help);

/// Adds --sample, how many characters of text are sampled at the end.
void add_sample_option(CLI::App& app, int64_t& length);

/// Errors: UserError, as from the program `name`, if `width` is no multiple of `heads`.
void check_heads(const std::string& name, int64_t width, int64_t heads);

/// Path of a file in the repository's data folder.
std::string data_path(const std::string& file);

/// Parses the command line and runs `body`. Returns the exit code: body's own, 2 for a mistake in the command line or
/// any other UserError, 1 for anything else; errors are one line on standard error.
int run_program(CLI::App& app, TrainOptions& options, int argc, char** argv, const std::function<int()>& body);

}  // namespace examples
