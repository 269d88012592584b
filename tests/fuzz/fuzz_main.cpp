// Runs random programs in eager and compiled, and compares: `make fuzz`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "diptych/native/schedule/nontemporal_stores.h"
#include "fuzz/campaign.h"
#include "fuzz/program.h"

int main(int argc, char** argv) {
  diptych::fuzz::CampaignOptions options;
  options.progress = true;
  CLI::App app("Runs random programs in eager and through dp::aot_function, and compares what a caller can see.",
               "fuzz_programs");
  app.add_option("--programs", options.programs, "How many programs to run")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", options.seed, "Which programs: equal seeds give equal programs")->capture_default_str();
  app.add_option("--first", options.first, "The number of the first program")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--minutes", options.minutes, "Stop after so many minutes; 0 means never")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--most-faults", options.most_faults, "Stop after so many programs that fail")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_flag("--loops", options.loops, "Make the programs bodies of scan, map, while_loop and cond");
  app.add_flag("--dynamic", options.dynamic, "Call each program with several sizes, with AotOptions::dynamic");
  app.add_flag("--captured", options.captured, "Run each backward as a captured graph of the whole pass");
  app.add_option("--topic", options.topic, "What all programs have: conjugates, default-dtypes or hooks")
      ->check(CLI::IsMember(diptych::fuzz::topics()));
  app.add_option("--backend", options.backend, "What runs the compiled side's graphs")->capture_default_str();
  app.add_flag("--verbose", options.verbose, "Print every program");
  app.add_flag("--show-refused", options.show_refused, "Print a program for each class of refusals, too");
  app.add_flag("--isolate", options.isolate, "Run programs in child processes, so that a crash names its program");
  bool nontemporal = false;
  app.add_flag("--nontemporal", nontemporal, "Have native kernels store past the caches at all sizes");
  CLI11_PARSE(app, argc, argv);
  if (nontemporal) diptych::detail::set_least_nontemporal_bytes(0);
  const auto counts = diptych::fuzz::run_campaign(options);
  fmt::print("{}", diptych::fuzz::to_string(counts));
  return counts.passed() ? 0 : 1;
}
