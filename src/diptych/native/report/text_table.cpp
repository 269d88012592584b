#include "diptych/native/report/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace diptych::detail {

std::string aligned_table(const std::vector<TableRow>& rows, const std::vector<size_t>& numbers) {
  std::vector<size_t> widths(rows.empty() ? 0 : rows[0].size());
  for (const TableRow& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const TableRow& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      const bool is_number = std::find(numbers.begin(), numbers.end(), i) != numbers.end();
      line += (i == 0 ? "" : "  ") + (is_number ? padding + row[i] : row[i] + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string operator_list(const std::vector<std::string>& operators) {
  constexpr size_t kMostLetters = 60;
  std::vector<std::pair<std::string, size_t>> counted;
  for (const std::string& name : operators) {
    const size_t begin = name.starts_with("aten.") ? 5 : 0;
    const std::string word = name.substr(begin, begin == 0 ? name.npos : name.find('.', begin) - begin);
    const auto found = std::find_if(counted.begin(), counted.end(), [&](const auto& of) { return of.first == word; });
    found == counted.end() ? void(counted.emplace_back(word, 1)) : void(++found->second);
  }
  std::string text;
  for (const auto& [word, count] : counted) {
    if (text.size() > kMostLetters) return text + ", ...";
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", count == 1 ? "" : fmt::format("{} ", count), word);
  }
  return text;
}

std::string count_text(int64_t count) {
  if (count < 10'000) return std::to_string(count);
  auto number = static_cast<double>(count);
  const char* unit = "";
  for (const char* next : {" k", " M", " G", " T"}) {
    if (number < 1000) break;
    number /= 1000;
    unit = next;
  }
  return fmt::format("{:.1f}{}", number, unit);
}

}  // namespace diptych::detail
