// Running many random programs and counting how they end.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "diptych/backends/builtin_backends.h"

namespace diptych::fuzz {

struct CampaignOptions {
  int64_t programs = 1000;
  uint64_t seed = 1;
  int64_t first = 0;          ///< the number of the first program
  double minutes = 0;         ///< stop after so long; 0: never
  bool verbose = false;       ///< print every program
  bool show_refused = false;  ///< print a program for each class of refusals, too
  bool isolate = false;       ///< run batches in children, so that a crash names its program
  bool dynamic = false;       ///< see Program::dynamic
  bool captured = false;      ///< see Program::captures_backward
  std::string backend = default_backend();
  bool loops = false;        ///< bodies are those of loops and branches
  std::string topic;         ///< what all of the programs have: see topics(); empty: some have each
  bool progress = false;     ///< a line now and then
  int64_t most_faults = 20;  ///< give up after so many
};

struct Counts {
  int64_t run = 0;
  int64_t agreed = 0;
  int64_t refused_by_name = 0;
  int64_t error_in_both = 0;
  int64_t saved_version = 0;
  int64_t only_eager_refuses = 0;
  int64_t disagreed = 0;
  int64_t crashed = 0;
  std::map<std::string, int64_t> refusals;  ///< by the class of the text
  std::map<std::string, int64_t> faults;    ///< by the way they fail

  bool passed() const { return disagreed == 0 && crashed == 0; }
};

/// Runs programs; prints each that fails, shrunk, to standard output.
Counts run_campaign(const CampaignOptions& options);
/// One line, and a histogram of what was refused.
std::string to_string(const Counts& counts);

}  // namespace diptych::fuzz
