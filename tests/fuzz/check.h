// Running a random program in eager and compiled, and judging whether a caller could tell the two apart.
#pragma once
#include <string>

#include "fuzz/program.h"
#include "testing/eager_check.h"

namespace diptych::fuzz {

enum class Outcome {
  kAgreed,
  kErrorInBoth,    ///< eager refuses it, and so do we
  kRefusedByName,  ///< eager runs it, we throw UserError
  /// A partitioner of ours, a loop, or the second order, which starts from the primals, saved what eager does not, and
  /// the program then changed it, or had a backward free it.
  kSavedVersion,
  kOnlyEagerRefuses,  ///< eager no longer has what its backward needs; we have kept it
  kDisagreed,
  kCrashed,  ///< seen by check_isolated only
  kInvalid,  ///< no program: see InvalidProgram
};

struct Verdict {
  Outcome outcome = Outcome::kAgreed;
  std::string key;  ///< what kind of difference or error, without numbers: equal keys fail in the same way
  std::string details;

  bool is_agreement() const { return outcome == Outcome::kAgreed || outcome == Outcome::kErrorInBoth; }
  bool is_fault() const { return outcome == Outcome::kDisagreed || outcome == Outcome::kCrashed; }
};

/// Judges a program by running it.
Verdict check(const Program& program);
/// The same in a child process, which may crash or hang. Requires: no other thread runs.
Verdict check_isolated(const Program& program);
/// Whether the numbers are small enough to compare: sums of large ones lose the digits in which two orders agree.
bool is_tame(const testing::Observed& seen);
/// What eager does in one call of the program, for the generator to see whether it is worth running.
testing::Observed observe_eager(const Program& program, int call);

}  // namespace diptych::fuzz
