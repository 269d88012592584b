#include "fuzz/check.h"

#include <sys/wait.h>
#include <unistd.h>

#include <regex>
#include <set>

#include "fuzz/loops.h"
#include "fuzz/observe.h"
#include "fuzz/operators.h"

namespace diptych::fuzz {

using namespace detail;
namespace {

using testing::Function;
using testing::Observed;

// Sums are added up in another order than eager's; a mistake is larger.
constexpr double kTolerance = 1e-4;

// Kernels compute what lies between halves in float, and round in other places.
double tolerance_of(const Program& program) {
  const auto is_half = [](at::ScalarType dtype) { return at::isReducedFloatingType(dtype); };
  const auto is_of_halves = [&](const Leaf& leaf) { return is_half(leaf.dtype); };
  const auto makes_halves = [&](const Statement& statement) {
    return statement.default_dtype && is_half(*statement.default_dtype);
  };
  const bool has_halves = std::any_of(program.leaves.begin(), program.leaves.end(), is_of_halves) ||
                          std::any_of(program.captured.begin(), program.captured.end(), is_of_halves) ||
                          std::any_of(program.body.begin(), program.body.end(), makes_halves) ||
                          is_half(program.default_dtype.dtype);
  return has_halves ? 3e-2 : kTolerance;
}
constexpr double kLargest = 1e5;
constexpr unsigned kSecondsOfAnIsolatedCheck = 120;

// The first line, without what varies from program to program.
std::string message_class(const std::string& text) {
  std::string line = text.substr(0, text.find('\n'));
  line = std::regex_replace(line, std::regex("'[^']*'"), "'_'");
  line = std::regex_replace(line, std::regex("\\[[0-9, -]*\\]"), "[..]");
  line = std::regex_replace(line, std::regex("-?[0-9]+"), "N");
  return line.substr(0, 160);
}

// What the library says in an error, without the nodes that it says it in: a body is run, and so refused, inside one.
std::string without_nodes(const std::string& text) {
  if (text.rfind("[interpreter]", 0) != 0) return text;
  const size_t inner = text.rfind("\n  [");
  return inner == std::string::npos ? text : text.substr(inner + 3);
}

Verdict judge_errors(const Program& program, const Run& eager, const Run& ours) {
  Verdict verdict;
  if (!eager.seen.error.empty() && !ours.seen.error.empty()) {
    return {Outcome::kErrorInBoth, message_class(eager.seen.error), ""};
  }
  const std::string said = without_nodes(ours.seen.error);
  verdict.key = message_class(said);
  verdict.details = "ours, in " + ours.stage + ": " + ours.seen.error;
  const auto says = [](const Run& run, const char* text) { return run.seen.error.find(text) != std::string::npos; };
  const bool is_version = says(ours, "modified by an inplace operation");
  // A loop is one operator, which has saved something where some of the nodes that eager has in its place have not; and
  // after a captured backward all of a compiled function counts as used.
  const bool is_freed = (program.loop.kind != Loop::Kind::kNone || program.captures_backward) &&
                        says(ours, "backward through the graph a second time");
  // What eager saved is gone, or it gives up on a view, where the compiled function has kept what it needs.
  const bool only_eager_lost_it = ours.seen.error.empty() && (says(eager, "modified by an inplace operation") ||
                                                              says(eager, "has been modified inplace"));
  // The interpreter names the node whose kernel failed; that is no refusal, for eager's kernel did not fail.
  const bool is_refusal = ours.user_error && said.rfind("[interpreter]", 0) != 0;
  // Bodies keep what their own partition chooses.
  const bool is_partitioned = program.partition != "default" || program.loop.kind != Loop::Kind::kNone;
  if (is_refusal) {
    verdict.outcome = Outcome::kRefusedByName;
  } else if (only_eager_lost_it) {
    return {Outcome::kOnlyEagerRefuses, message_class(eager.seen.error), "eager: " + eager.seen.error};
  } else if (is_freed || (is_version && (is_partitioned || program.backward.mode == Backward::Mode::kSecondOrder))) {
    verdict.outcome = Outcome::kSavedVersion;
  } else {
    verdict.outcome = Outcome::kDisagreed;
    verdict.key = (ours.seen.error.empty() ? "error in eager only: " + message_class(eager.seen.error)
                                           : "error in ours only, in " + ours.stage + ": " + verdict.key);
    if (ours.seen.error.empty()) verdict.details = "eager, in " + eager.stage + ": " + eager.seen.error;
  }
  return verdict;
}

// A loop does not look at each step alone: where a gradient or a history could come with more or fewer steps, it gives
// zeros for a gradient that eager leaves out, and a history to a result that eager gives none.
void drop_coarseness(const Observed& ours, std::vector<std::string>& lines) {
  const auto is_coarse = [&](const std::string& line) {
    size_t index = 0;
    if (std::sscanf(line.c_str(), "gradient %zu: defined: eager 0, ours 1", &index) == 1) {
      return index < ours.grads.size() && ours.grads[index].defined() &&
             ours.grads[index].count_nonzero().item<int>() == 0;
    }
    return line.find(": requires_grad: eager 0, ours 1") != std::string::npos ||
           line.find(": is_leaf: eager 1, ours 0") != std::string::npos;
  };
  lines.erase(std::remove_if(lines.begin(), lines.end(), is_coarse), lines.end());
}

using MakeFunction = std::function<Function(const Tensors& captured)>;

MakeFunction run_as(const Program& program, Way way) {
  return [&program, way](const Tensors& captured) -> Function {
    return
        [&program, way, captured](const Tensors& arguments) { return run_function(program, arguments, captured, way); };
  };
}

// What a line of differences is about: "output 1: values".
std::string subject_of(const std::string& line) {
  const size_t end = line.find(": eager") != std::string::npos ? line.find(": eager") : line.find(":\n");
  return line.substr(0, end);
}

// Whether rounding decides what differs, as it does the positions of nearly equal numbers: eager's own results differ
// in the same things where its floats are moved in their last place.
bool is_decided_by_rounding(Program program, int number, const Run& eager, const std::vector<std::string>& lines) {
  std::set<std::string> moved;
  for (int way = 1; way <= 4; ++way) {
    for (Leaf& leaf : program.leaves) leaf.shaken = way;
    for (Leaf& leaf : program.captured) leaf.shaken = way;
    const Tensors captured = make_captured(program);
    const Function function = run_as(program, Way::kWrittenOut)(captured);
    Run run;
    for (int call = 0; call <= number; ++call) run = observe(program, function, captured, call);
    for (const std::string& line : testing::differences(eager.seen, run.seen, tolerance_of(program)))
      moved.insert(subject_of(line));
  }
  return std::all_of(lines.begin(), lines.end(), [&](const auto& line) { return moved.count(subject_of(line)) != 0; });
}

Verdict judge(const Program& program, int number, const Run& eager, const Run& ours) {
  if (!eager.seen.error.empty() || !ours.seen.error.empty()) return judge_errors(program, eager, ours);
  auto lines = testing::differences(eager.seen, ours.seen, tolerance_of(program));
  if (program.loop.kind != Loop::Kind::kNone) drop_coarseness(ours.seen, lines);
  if (lines.empty() || is_decided_by_rounding(program, number, eager, lines)) return {};
  Verdict verdict{Outcome::kDisagreed, message_class(subject_of(lines[0])), ""};
  for (const std::string& line : lines) verdict.details += line + "\n";
  return verdict;
}

// Each side keeps its captured tensors from call to call.
Verdict check_calls(const Program& program, const MakeFunction& expected_by, const MakeFunction& got_by) {
  const Tensors eager_captured = make_captured(program);
  const Tensors our_captured = make_captured(program);
  const Function eager = expected_by(eager_captured);
  const Function ours = got_by(our_captured);
  for (int number = 0; number < program.calls; ++number) {
    const Run expected = observe(program, eager, eager_captured, number);
    const Run got = observe(program, ours, our_captured, number, &expected);
    Verdict verdict = judge(program, number, expected, got);
    if (verdict.outcome == Outcome::kAgreed && diptych::detail::Recorder::current() != nullptr) {
      verdict = {Outcome::kDisagreed, "a trace was left active", ""};
    }
    if (verdict.outcome == Outcome::kAgreed && c10::get_default_dtype_as_scalartype() != at::kFloat) {
      verdict = {Outcome::kDisagreed, "the default dtype was left changed", ""};
    }
    if (verdict.outcome == Outcome::kAgreed) continue;
    verdict.details = "in call " + std::to_string(number) + ": " + verdict.details;
    return verdict;
  }
  return {};
}

// A body is traced where no step runs it, so that what its own operators refuse is met there.
bool fails_with_a_step(Program program) {
  program.loop.length = 1;
  const Tensors captured = make_captured(program);
  return !observe(program, run_as(program, Way::kWrittenOut)(captured), captured, 0).seen.error.empty();
}

Verdict check_calls(const Program& program) {
  const MakeFunction eager = run_as(program, Way::kWrittenOut);
  const MakeFunction compiled = [&](const Tensors& captured) -> Function {
    return [aot = aot_function(run_as(program, Way::kByOperator)(captured),
                               {.backend = program.backend,
                                .partition = partitioner_by_name(program.partition),
                                .dynamic = program.dynamic})](const Tensors& arguments) { return aot(arguments); };
  };
  if (program.loop.kind != Loop::Kind::kNone) {
    Verdict verdict = check_calls(program, eager, run_as(program, Way::kByOperator));
    if (verdict.outcome == Outcome::kDisagreed && program.loop.length == 0 && fails_with_a_step(program)) {
      return {Outcome::kErrorInBoth, verdict.key, ""};
    }
    if (!verdict.is_agreement()) {
      verdict.key = "outside a capture: " + verdict.key;
      return verdict;
    }
  }
  if (program.captures_backward) {
    Verdict verdict = check_calls(program, eager, run_as(program, Way::kByOperator));
    if (!verdict.is_agreement()) {
      verdict.key = "of eager's forward: " + verdict.key;
      return verdict;
    }
  }
  return check_calls(program, eager, compiled);
}

}  // namespace

Verdict check(const Program& program) {
  try {
    return check_calls(program);
  } catch (const InvalidProgram& error) {
    return {Outcome::kInvalid, "", error.what()};
  } catch (const std::exception& error) {
    // The caller's own statements failed, before the function was called.
    return {Outcome::kInvalid, "", error.what()};
  }
}

testing::Observed observe_eager(const Program& program, int call) {
  const Tensors captured = make_captured(program);
  return observe(program, run_as(program, Way::kWrittenOut)(captured), captured, call).seen;
}

bool is_tame(const Observed& seen) {
  const auto are_small = [](const Tensors& tensors) {
    return std::all_of(tensors.begin(), tensors.end(), [](const at::Tensor& tensor) {
      if (!tensor.defined() || tensor.numel() == 0 || !is_differentiable(tensor.scalar_type())) return true;
      return tensor.detach().abs().max().item<double>() < kLargest;  // false for NaN
    });
  };
  return are_small(seen.outputs) && are_small(seen.grads) && are_small(seen.inputs);
}

Verdict check_isolated(const Program& program) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("no pipe");
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("no process");
  if (child == 0) {
    close(ends[0]);
    alarm(kSecondsOfAnIsolatedCheck);
    const Verdict verdict = check(program);
    const std::string text =
        std::to_string(static_cast<int>(verdict.outcome)) + "\n" + verdict.key + "\n" + verdict.details;
    const ssize_t written = write(ends[1], text.data(), std::min<size_t>(text.size(), 32768));
    _exit(written < 0 ? 1 : 0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t count = 0; (count = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, count);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return {Outcome::kCrashed, "signal " + std::to_string(WTERMSIG(status)), ""};
  if (text.empty()) return {Outcome::kCrashed, "exit status " + std::to_string(WEXITSTATUS(status)), ""};
  const size_t first = text.find('\n');
  const size_t second = text.find('\n', first + 1);
  return {static_cast<Outcome>(std::stoi(text.substr(0, first))), text.substr(first + 1, second - first - 1),
          text.substr(second + 1)};
}

}  // namespace diptych::fuzz
