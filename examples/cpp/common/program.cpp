// Options, exit codes and error lines of the training programs.
#include "common/program.h"
#include "diptych/base/check.h"

#include <c10/util/Exception.h>
#include <diptych/base/error.h>
#include <diptych/passes/partition.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

namespace examples {
namespace {

constexpr int kFailed = 1;
constexpr int kWrongUse = 2;

int fail(const TrainOptions& options, const std::string& text, int code) {
  fmt::print(stderr, "{}: error: {}\n", options.name, text);
  return code;
}

// The values of the options that decide the result, as text, so that numbers compare as they were given.
RunOptions run_options(const CLI::App& app) {
  RunOptions run;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group() != kRunGroup) continue;
    run[option->get_name()] =
        option->count() > 0 ? CLI::detail::join(option->reduced_results()) : option->get_default_str();
  }
  return run;
}

// What is wrong with a partitioner's name; empty if nothing is.
std::string partition_error(const std::string& name) {
  try {
    diptych::partitioner_by_name(name);
    return "";
  } catch (const diptych::UserError& error) {
    return error.what();
  }
}

std::string rate_error(const std::string& text) {
  double rate = 0;
  // Written so that nan is refused too.
  const bool is_right = CLI::detail::lexical_cast(text, rate) && rate > 0 && rate <= 1e3;
  return is_right ? "" : fmt::format("got {}, expected a number above 0 and up to 1000", text);
}

}  // namespace

std::shared_ptr<CLI::App> make_app(const std::string& description) { return std::make_shared<CLI::App>(description); }

void add_train_options(CLI::App& app, TrainOptions& options) {
  if (options.out.empty()) options.out = "out/" + options.name;
  // A later value wins, so that a script's options can be followed by the user's.
  app.option_defaults()->always_capture_default()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("--steps", options.steps, "Optimizer steps in all")
      ->check(CLI::Range(int64_t{1}, int64_t{100'000'000}))
      ->group(kHowGroup);
  app.add_option("--data", options.data, "File to train on")->group(kRunGroup);
  add_size_option(app, "--batch", options.batch, "Sequences or images in a step");
  app.add_option("--lr", options.lr, "Highest learning rate; it warms up, then falls to a tenth along a cosine")
      ->check(CLI::Validator(rate_error, ""))
      ->group(kRunGroup);
  app.add_option("--seed", options.seed, "Seed of the parameters and of the batches")
      ->check(CLI::NonNegativeNumber)
      ->group(kRunGroup);
  app.add_option("--backend", options.backend,
                 "native: compile the captured graphs for this machine; interpreter: run them operator by operator; "
                 "xla: have XLA "
                 "compile them; eager: plain LibTorch")
      ->check(CLI::IsMember({"native", "interpreter", "xla", "eager"}))
      ->group(kHowGroup);
  app.add_option(
         "--partition", options.partition,
         "What the forward graph saves for the backward graph: default, min_cut, or memory_budget(X) with X in 0..1")
      ->check(CLI::Validator(partition_error, ""))
      ->group(kHowGroup);
  app.add_option("--out", options.out, "Folder of the checkpoints, the loss curve and the report")->group(kHowGroup);
  app.add_option("--report", options.report, "Path of the report page [report.html in --out]")
      ->always_capture_default(false)
      ->group(kHowGroup);
  auto* resume =
      app.add_flag("--resume", options.resume, "Go on from the newest checkpoint; an error if there is none");
  app.add_flag("--fresh", options.fresh, "Remove the checkpoints in --out and start over")
      ->excludes(resume)
      ->group(kHowGroup);
  resume->group(kHowGroup);
  app.add_option("--compare-eager", options.compare_eager,
                 "Run this many steps again in eager and compare the losses; 0: don't")
      ->check(CLI::NonNegativeNumber)
      ->group(kHowGroup);
  app.add_option("--checkpoint-every", options.checkpoint_every,
                 "Steps between checkpoints; one is written at the end in any case")
      ->check(CLI::PositiveNumber)
      ->group(kHowGroup);
}

void add_size_option(CLI::App& app, const std::string& name, int64_t& value, const std::string& help) {
  app.add_option(name, value, help)->check(CLI::Range(int64_t{1}, int64_t{1'000'000}))->group(kRunGroup);
}

void add_sample_option(CLI::App& app, int64_t& length) {
  app.add_option("--sample", length, "Characters of sampled text at the end")
      ->check(CLI::NonNegativeNumber)
      ->group(kHowGroup);
}

void check_heads(const std::string& name, int64_t width, int64_t heads) {
  DIPTYCH_CHECK(width % heads == 0, "[{}] --width {} is no multiple of --heads {}; change one of them", name, width,
                heads);
}

std::string data_path(const std::string& file) { return std::string(DIPTYCH_EXAMPLES_DATA) + "/" + file; }

int run_program(CLI::App& app, TrainOptions& options, int argc, char** argv, const std::function<int()>& body) {
  try {
    app.parse(argc, argv);
    options.run = run_options(app);
    return body();
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return fail(options, std::string(error.what()) + "; --help lists the options", kWrongUse);
  } catch (const diptych::UserError& error) {
    return fail(options, error.what(), kWrongUse);
  } catch (const c10::Error& error) {
    return fail(options, error.what_without_backtrace(), kFailed);
  } catch (const std::exception& error) {
    return fail(options, error.what(), kFailed);
  }
}

}  // namespace examples
