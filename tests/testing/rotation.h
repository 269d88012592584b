// Which of the many seeds of a test a run takes: all, or the part that DIPTYCH_TEST_PART names (tests/README.md,
// "Tiers").
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace diptych::testing {

/// A part of the samples, of so many parts.
struct Part {
  uint32_t index = 0;
  uint32_t of = 1;
  bool is_whole() const { return of == 1; }
};

/// The part of this run. Errors: std::invalid_argument if the variable is neither "all" nor such as "3/10".
inline Part part_of_run() {
  const char* const variable = std::getenv("DIPTYCH_TEST_PART");
  const std::string text = variable == nullptr || *variable == '\0' ? "all" : variable;
  if (text == "all") return {};
  const size_t slash = text.find('/');
  if (slash == 0 || slash == text.npos || text.find_first_not_of("0123456789/") != text.npos) {
    throw std::invalid_argument("DIPTYCH_TEST_PART is '" + text + "', expected 'all', or such as '3/10'");
  }
  return {static_cast<uint32_t>(std::stoul(text)), static_cast<uint32_t>(std::stoul(text.substr(slash + 1)))};
}

/// The seeds from `begin` on and below `end` that this run takes: each part has at least one, and all parts together
/// have them all.
inline std::vector<uint32_t> rotating_seeds(uint32_t begin, uint32_t end) {
  const Part part = part_of_run();
  const uint32_t step = std::min(part.of, end - begin);
  std::vector<uint32_t> seeds;
  for (uint32_t seed = begin + part.index % step; seed < end; seed += step) seeds.push_back(seed);
  return seeds;
}

/// Whether this run takes the sample of a kind before which there are so many: the first of each kind is always taken,
/// and of the others the run's part.
inline bool takes_place(uint32_t place) {
  const Part part = part_of_run();
  return place == 0 || (place - 1) % part.of == part.index;
}

/// The same of the next sample of a kind in the present test. The sample need not be known before: it is told by how
/// many of its kind came before it.
inline bool takes_sample(const std::string& kind) {
  static const ::testing::TestInfo* test = nullptr;
  static std::map<std::string, uint32_t> met;
  const auto* const present = ::testing::UnitTest::GetInstance()->current_test_info();
  if (present != test) met.clear();
  test = present;
  return takes_place(met[kind]++);
}

/// How many of `taken` seeds must do what `share` of `whole` do: these where all are taken; half of their share of a
/// part, which varies.
inline size_t share_of(size_t taken, size_t share, size_t whole) {
  return taken == whole ? share : taken * share / whole / 2;
}

}  // namespace diptych::testing
