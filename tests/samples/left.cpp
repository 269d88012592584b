#include "samples/left.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

namespace diptych::test {
namespace {

// "0-4 7"
std::string text_of(const Numbers& numbers) {
  std::string text;
  for (auto number = numbers.begin(); number != numbers.end();) {
    const int first = *number;
    int last = first;
    while (++number != numbers.end() && *number == last + 1) ++last;
    text += first == last ? fmt::format(" {}", first) : fmt::format(" {}-{}", first, last);
  }
  return text;
}

}  // namespace

LeftSamples read_left_samples() {
  LeftSamples left;
  std::ifstream file(DIPTYCH_LEFT);
  std::string family, judge;
  Numbers numbers;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string word;
    if (line[0] != ' ') {
      words >> family >> judge;
      for (numbers.clear(); words >> word;) {
        const size_t dash = word.find('-');
        const int first = std::stoi(word), last = dash == word.npos ? first : std::stoi(word.substr(dash + 1));
        for (int number = first; number <= last; ++number) numbers.insert(number);
      }
    }
    while (words >> word) left[family][judge]["aten." + word] = numbers;
  }
  return left;
}

void write_left_samples(const LeftSamples& left) {
  std::ofstream file(DIPTYCH_LEFT);
  file << "# A family of samples and who does not take some: eager, which refuses them, or a backend, which leaves "
          "them to\n"
          "# the interpreter. Which of an operator's samples in the family, then of which operators.\n"
          "# DIPTYCH_RENEW_SAMPLES=1 build/ci/bin/test_samples renews it.\n";
  for (const auto& [family, judges] : left) {
    for (const auto& [judge, ops] : judges) {
      std::map<Numbers, std::vector<std::string>> alike;
      for (const auto& [op, numbers] : ops) {
        if (!numbers.empty()) alike[numbers].push_back(op.substr(sizeof("aten.") - 1));
      }
      for (const auto& [numbers, names] : alike) {
        file << family << ' ' << judge << text_of(numbers) << '\n';
        std::string line = " ";
        for (const std::string& name : names) {
          if (line.size() + name.size() > 118) file << std::exchange(line, " ") << '\n';
          line += ' ' + name;
        }
        file << line << '\n';
      }
    }
  }
}

}  // namespace diptych::test
