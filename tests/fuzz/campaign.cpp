#include "fuzz/campaign.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <sstream>

#include "fuzz/check.h"
#include "fuzz/generate.h"
#include "fuzz/shrink.h"

namespace diptych::fuzz {

using namespace detail;
namespace {

constexpr int64_t kBatch = 100;
constexpr unsigned kSecondsOfABatch = 600;

uint64_t seed_of(const CampaignOptions& options, int64_t number) {
  return options.seed * 1000003 + static_cast<uint64_t>(number);
}

void count(Counts& counts, const Verdict& verdict) {
  ++counts.run;
  switch (verdict.outcome) {
    case Outcome::kInvalid:
    case Outcome::kAgreed:
      ++counts.agreed;
      break;
    case Outcome::kErrorInBoth:
      ++counts.error_in_both;
      break;
    case Outcome::kSavedVersion:
      ++counts.saved_version;
      break;
    case Outcome::kOnlyEagerRefuses:
      ++counts.only_eager_refuses;
      break;
    case Outcome::kRefusedByName:
      ++counts.refused_by_name;
      ++counts.refusals[verdict.key];
      break;
    case Outcome::kDisagreed:
      ++counts.disagreed;
      ++counts.faults[verdict.key];
      break;
    case Outcome::kCrashed:
      ++counts.crashed;
      ++counts.faults[verdict.key];
      break;
  }
}

void report(const CampaignOptions& options, int64_t number, const Program& program, const Verdict& verdict) {
  // Shrinking a program that may crash must not end the run.
  const Program small = shrink(program, verdict, options.isolate ? check_isolated : check);
  const Verdict again = options.isolate ? check_isolated(small) : check(small);
  fmt::print(
      "\nprogram {} of seed {} {}: {}\n{}{}\n(see it again: --backend {} {}{}{}{}--seed {} --first {} --programs 1)\n",
      number, options.seed, verdict.is_fault() ? "fails" : "is refused", verdict.key, to_string(small),
      again.details.empty() ? verdict.details : again.details, options.backend, options.loops ? "--loops " : "",
      options.dynamic ? "--dynamic " : "", options.captured ? "--captured " : "",
      options.topic.empty() ? "" : "--topic " + options.topic + " ", options.seed, number);
  std::fflush(stdout);
}

Program make_program(const CampaignOptions& options, int64_t number) {
  const uint64_t seed = seed_of(options, number);
  const Topic topic = options.topic.empty() ? Topic::kNone : topics().at(options.topic);
  Program program = options.loops ? generate_loop(seed, topic) : generate(seed, topic);
  program.captures_backward = options.captured;
  program.dynamic = options.dynamic;
  program.backend = options.backend;
  if (options.dynamic) program.calls = 6;
  return program;
}

void run_one(const CampaignOptions& options, int64_t number, Counts& counts) {
  const Program program = make_program(options, number);
  if (options.verbose) fmt::print("program {} of seed {}\n{}", number, options.seed, to_string(program));
  const Verdict verdict = check(program);
  if (options.verbose) fmt::print("{} {}\n\n", static_cast<int>(verdict.outcome), verdict.key);
  const bool shown = verdict.is_fault() || (options.show_refused && verdict.outcome == Outcome::kRefusedByName);
  const bool known = counts.faults.count(verdict.key) != 0 || counts.refusals.count(verdict.key) != 0;
  count(counts, verdict);
  // One program of each way to fail is enough to look at.
  if (shown && !known) report(options, number, program, verdict);
}

std::string write_counts(const Counts& counts) {
  std::ostringstream out;
  out << counts.run << ' ' << counts.agreed << ' ' << counts.refused_by_name << ' ' << counts.error_in_both << ' '
      << counts.saved_version << ' ' << counts.only_eager_refuses << ' ' << counts.disagreed << ' ' << counts.crashed
      << '\n';
  for (const auto& [key, number] : counts.refusals) out << 'r' << number << ' ' << key << '\n';
  for (const auto& [key, number] : counts.faults) out << 'f' << number << ' ' << key << '\n';
  return out.str();
}

void add_counts(const std::string& text, Counts& counts) {
  std::istringstream in(text);
  Counts read;
  in >> read.run >> read.agreed >> read.refused_by_name >> read.error_in_both >> read.saved_version >>
      read.only_eager_refuses >> read.disagreed >> read.crashed;
  counts.run += read.run;
  counts.agreed += read.agreed;
  counts.refused_by_name += read.refused_by_name;
  counts.error_in_both += read.error_in_both;
  counts.saved_version += read.saved_version;
  counts.only_eager_refuses += read.only_eager_refuses;
  counts.disagreed += read.disagreed;
  counts.crashed += read.crashed;
  std::string line;
  while (std::getline(in, line)) {
    const size_t space = line.find(' ');
    if (space == std::string::npos || space < 2) continue;
    (line[0] == 'r' ? counts.refusals : counts.faults)[line.substr(space + 1)] += std::stoll(line.substr(1, space - 1));
  }
}

// What was counted between the two.
Counts difference(Counts after, const Counts& before) {
  for (const auto member :
       {&Counts::run, &Counts::agreed, &Counts::refused_by_name, &Counts::error_in_both, &Counts::saved_version,
        &Counts::only_eager_refuses, &Counts::disagreed, &Counts::crashed}) {
    after.*member -= before.*member;
  }
  for (const auto member : {&Counts::refusals, &Counts::faults}) {
    for (const auto& [key, number] : before.*member) {
      if (((after.*member)[key] -= number) == 0) (after.*member).erase(key);
    }
  }
  return after;
}

// Runs programs in a child. Returns the number to go on with: past the one that crashed, if one did.
int64_t run_batch(const CampaignOptions& options, int64_t first, int64_t end, Counts& counts) {
  auto* current =
      static_cast<int64_t*>(mmap(nullptr, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  int ends[2];
  if (current == MAP_FAILED || pipe(ends) != 0) throw std::runtime_error("no memory or pipe for a child process");
  std::fflush(stdout);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("no child process");
  if (child == 0) {
    close(ends[0]);
    alarm(kSecondsOfABatch);
    for (int64_t number = first; number < end; ++number) {
      *current = number;
      Counts one;
      const Counts before = counts;
      run_one(options, number, counts);
      const std::string text = write_counts(difference(counts, before)) + "end\n";
      if (write(ends[1], text.data(), text.size()) < 0) _exit(1);
    }
    std::fflush(stdout);
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, got);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  for (size_t at = 0, stop = 0; (stop = text.find("end\n", at)) != std::string::npos; at = stop + 4) {
    add_counts(text.substr(at, stop - at), counts);
  }
  const int64_t last = *current;
  munmap(current, sizeof(int64_t));
  if (!WIFSIGNALED(status) && WEXITSTATUS(status) == 0) return end;
  const Verdict verdict{Outcome::kCrashed,
                        WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status)) : "exit status", ""};
  count(counts, verdict);
  report(options, last, make_program(options, last), verdict);
  return last + 1;
}

}  // namespace

Counts run_campaign(const CampaignOptions& options) {
  using Clock = std::chrono::steady_clock;
  // Children are forked from this process, which must have no threads; the programs are too small for them anyhow.
  at::set_num_threads(1);
  // Eager's warnings are about what the programs do, which nobody wrote.
  struct Silent : c10::WarningHandler {
    void process(const c10::Warning&) override {}
  } silent;
  const c10::WarningUtils::WarningHandlerGuard guard(&silent);
  const auto start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  Counts counts;
  double next_line = 10;
  const int64_t end = options.first + options.programs;
  for (int64_t number = options.first; number < end;) {
    if (options.isolate) {
      number = run_batch(options, number, std::min(end, number + kBatch), counts);
    } else {
      run_one(options, number++, counts);
    }
    if (options.progress && seconds() > next_line) {
      next_line = seconds() + 10;
      fmt::print("{} programs in {:.0f} s: {} disagreed, {} crashed, {} refused by name\n", counts.run, seconds(),
                 counts.disagreed, counts.crashed, counts.refused_by_name);
      std::fflush(stdout);
    }
    if (options.minutes > 0 && seconds() > options.minutes * 60) break;
    if (counts.disagreed + counts.crashed >= options.most_faults) break;
  }
  return counts;
}

std::string to_string(const Counts& counts) {
  std::string text;
  for (const auto& [key, number] : counts.refusals) text += fmt::format("{:6} refused: {}\n", number, key);
  for (const auto& [key, number] : counts.faults) text += fmt::format("{:6} FAULT: {}\n", number, key);
  return text + fmt::format(
                    "{} run: {} agreed, {} refused by name, {} errors in both, {} saved more than eager and found it "
                    "changed or freed, "
                    "{} refused by eager alone, {} disagreed, {} crashed\n",
                    counts.run, counts.agreed, counts.refused_by_name, counts.error_in_both, counts.saved_version,
                    counts.only_eager_refuses, counts.disagreed, counts.crashed);
}

}  // namespace diptych::fuzz
