#include "diptych/base/switches.h"

#include <array>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "diptych/base/check.h"
#include "diptych/base/environment.h"
#include "diptych/base/log.h"

namespace diptych {

using namespace detail;
namespace {

struct Switch {
  std::string_view name;
  Log kind;
  std::string_view doc;
};
constexpr std::array<Switch, 7> kSwitches{{
    {"graphs", Log::kGraphs, "every captured pair, as code"},
    {"cache", Log::kCache, "cache hits, misses and the guard that failed"},
    {"partition", Log::kPartition, "the residuals that a partitioner chose"},
    {"backward", Log::kBackward, "backward variants and backward runs as they are traced and compiled"},
    {"backward_verbose", Log::kBackwardVerbose, "each node of a captured backward run with its key, and its graph"},
    {"passes", Log::kPasses, "each pass with its time and node counts"},
    {"kernels", Log::kKernels, "each native kernel as it is made, and why one is not"},
}};

unsigned bit_of(Log kind) { return 1U << static_cast<unsigned>(kind); }

unsigned parse(std::string_view names) {
  unsigned bits = 0;
  while (!names.empty()) {
    const auto comma = names.find(',');
    const auto name = names.substr(0, comma);
    names = comma == names.npos ? std::string_view() : names.substr(comma + 1);
    if (name.empty()) continue;
    if (name == "all") {
      bits = ~0U;
      continue;
    }
    unsigned found = 0;
    std::string known;
    for (const auto& entry : kSwitches) {
      if (entry.name == name) found = bit_of(entry.kind);
      known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", entry.name, entry.doc);
    }
    DIPTYCH_CHECK(found != 0, "[DIPTYCH_LOG] got '{}', which is not a switch; use 'all' or some of: {}", name, known);
    bits |= found;
  }
  return bits;
}

std::atomic<unsigned>& bits() {
  static std::atomic<unsigned> value{[] {
    const char* names = std::getenv("DIPTYCH_LOG");
    return names == nullptr ? 0U : parse(names);
  }()};
  return value;
}

#ifdef NDEBUG
constexpr bool kChecksCalls = false;
#else
constexpr bool kChecksCalls = true;
#endif

std::atomic<bool>& call_checks() {
  static std::atomic<bool> value{is_on("DIPTYCH_CHECK_CALLS", kChecksCalls)};
  return value;
}

struct CheckWords {
  size_t calls = 0;
  bool kernels = false;
};

CheckWords read_check_words() {
  CheckWords words;
  const char* text = std::getenv("DIPTYCH_CHECK");
  std::string_view rest = text == nullptr ? "" : text;
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    const auto word = rest.substr(0, comma);
    rest = comma == rest.npos ? std::string_view() : rest.substr(comma + 1);
    if (word == "kernels") {
      words.kernels = true;
      continue;
    }
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), words.calls);
    DIPTYCH_CHECK(error == std::errc() && end == word.data() + word.size(),
                  "[DIPTYCH_CHECK] got '{}', expected a whole number n: one call in n of a compiled function is "
                  "compared with the original function, 0 for none; or 'kernels'; or both, separated by a comma",
                  text);
  }
  return words;
}

const CheckWords& check_words() {
  static const CheckWords words = read_check_words();
  return words;
}

std::atomic<bool>& kernel_checks() {
  static std::atomic<bool> value{check_words().kernels};
  return value;
}

std::mutex& sink_mutex() {
  static std::mutex mutex;
  return mutex;
}
std::function<void(std::string_view)>& sink() {
  static std::function<void(std::string_view)> value;
  return value;
}

}  // namespace

bool log_enabled(Log kind) { return (bits().load(std::memory_order_relaxed) & bit_of(kind)) != 0; }

bool checks_calls() { return call_checks().load(std::memory_order_relaxed); }

void set_checks_calls(bool checks) { call_checks().store(checks); }

void set_log(std::string_view names) { bits().store(parse(names)); }

bool checks_kernels() { return kernel_checks().load(std::memory_order_relaxed); }

void set_checks_kernels(bool checks) { kernel_checks().store(checks); }

size_t detail::calls_per_check() { return check_words().calls; }

void set_log_sink(std::function<void(std::string_view)> new_sink) {
  const std::lock_guard<std::mutex> lock(sink_mutex());
  sink() = std::move(new_sink);
}

void detail::write_log(Log kind, std::string_view text) {
  const std::lock_guard<std::mutex> lock(sink_mutex());
  const auto line = fmt::format("[diptych {}] {}", kSwitches[static_cast<unsigned>(kind)].name, text);
  if (sink()) {
    sink()(line);
  } else {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
}

}  // namespace diptych
