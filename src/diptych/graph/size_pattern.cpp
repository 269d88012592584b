#include "diptych/graph/size_pattern.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace diptych::detail {
namespace {

using Examples = c10::ArrayRef<std::vector<int64_t>>;

constexpr int64_t kLargestOffset = 8;

SymbolValues symbols_of(const std::vector<int64_t>& example, const std::vector<uint32_t>& positions) {
  SymbolValues symbols{};
  for (size_t i = 0; i < positions.size(); ++i) symbols[i] = example[positions[i]];
  return symbols;
}

// The positions at which the examples differ, small entries first; none if one of those entries is not a size that may
// change.
std::optional<std::vector<uint32_t>> changing_positions(Examples examples) {
  std::vector<uint32_t> positions;
  for (uint32_t i = 0; i < examples[0].size(); ++i) {
    if (std::all_of(examples.begin(), examples.end(), [&](const auto& list) { return list[i] == examples[0][i]; })) {
      continue;
    }
    positions.push_back(i);
    for (const auto& list : examples) {
      if (list[i] < 2 || list[i] > kLargestSize) return std::nullopt;
    }
  }
  if (positions.empty()) return std::nullopt;
  const auto& last = examples.back();
  std::stable_sort(positions.begin(), positions.end(), [&](uint32_t a, uint32_t b) { return last[a] < last[b]; });
  return positions;
}

}  // namespace

std::vector<Powers> power_products(size_t num_symbols, int degree) {
  std::vector<Powers> all{Powers{}};
  size_t begin = 0;
  for (int d = 1; d <= degree; ++d) {
    const size_t end = all.size();
    for (size_t i = begin; i < end; ++i) {
      for (size_t s = 0; s < num_symbols; ++s) {
        Powers powers = all[i];
        ++powers[s];
        if (std::find(all.begin(), all.end(), powers) == all.end()) all.push_back(powers);
      }
    }
    begin = end;
  }
  return all;
}

__int128 product_at(const Powers& powers, const SymbolValues& symbols) {
  __int128 product = 1;
  for (size_t i = 0; i < powers.size(); ++i) {
    for (uint8_t p = 0; p < powers[i]; ++p) product *= symbols[i];
  }
  return product;
}

std::string SizePattern::name_of(size_t symbol) { return "s" + std::to_string(symbol); }

int64_t SizePattern::Entry::value(const SymbolValues& symbols) const {
  SymbolValues shifted = symbols;
  for (int64_t& symbol : shifted) symbol += shift;
  return scale * static_cast<int64_t>(product_at(powers, shifted)) + offset;
}

std::optional<SizePattern::Entry> SizePattern::derive(Examples examples, const std::vector<uint32_t>& symbols,
                                                      uint32_t position) {
  const auto holds = [&](const Entry& entry) {
    return std::all_of(examples.begin(), examples.end(),
                       [&](const auto& list) { return entry.value(symbols_of(list, symbols)) == list[position]; });
  };
  const auto first = symbols_of(examples[0], symbols);
  const auto products = power_products(symbols.size(), 3);
  for (const int64_t shift : {0, 1, -1, 2, -2}) {
    for (const Powers& powers : products) {
      const int64_t product = Entry{position, 1, shift, 0, powers}.value(first);
      if (product == 0 || examples[0][position] % product != 0) continue;
      const Entry entry{position, examples[0][position] / product, shift, 0, powers};
      if (holds(entry)) return entry;  // never for the product 1, as the entry changes
    }
  }
  for (size_t i = 0; i < symbols.size(); ++i) {
    Powers powers{};
    powers[i] = 1;
    const Entry entry{position, 1, 0, examples[0][position] - first[i], powers};
    if (std::abs(entry.offset) <= kLargestOffset && holds(entry)) return entry;
  }
  return std::nullopt;
}

std::optional<SizePattern> SizePattern::of(Examples examples) {
  for (const auto& list : examples) {
    if (list.size() != examples[0].size()) return std::nullopt;
  }
  const auto changing = changing_positions(examples);
  if (!changing) return std::nullopt;
  SizePattern pattern;
  pattern.example_ = examples.back();
  for (const uint32_t position : *changing) {
    if (const auto entry = derive(examples, pattern.symbols_, position)) {
      pattern.dynamic_.push_back(*entry);
      continue;
    }
    if (pattern.symbols_.size() == kMostSymbols) return std::nullopt;
    Powers powers{};
    powers[pattern.symbols_.size()] = 1;
    pattern.dynamic_.push_back({position, 1, 0, 0, powers});
    pattern.symbols_.push_back(position);
    Range range{kLargestSize, 0};
    for (const auto& list : examples) {
      range = {std::min(range.first, list[position]), std::max(range.last, list[position])};
    }
    pattern.ranges_.push_back(range);
  }
  std::sort(pattern.dynamic_.begin(), pattern.dynamic_.end(),
            [](const Entry& a, const Entry& b) { return a.position < b.position; });
  return pattern;
}

std::optional<SizePattern> SizePattern::with(Examples earlier, const std::vector<int64_t>& latest) {
  std::vector<std::vector<int64_t>> examples;
  for (const auto& example : earlier) {
    const std::array<std::vector<int64_t>, 2> both{example, latest};
    if (of(both)) examples.push_back(example);
  }
  if (examples.empty()) return std::nullopt;
  examples.push_back(latest);
  return of(examples);
}

std::optional<SymbolValues> SizePattern::match(c10::ArrayRef<int64_t> values) const {
  if (values.size() != example_.size()) return std::nullopt;
  SymbolValues symbols{};
  for (size_t i = 0; i < symbols_.size(); ++i) {
    symbols[i] = values[symbols_[i]];
    if (symbols[i] < ranges_[i].first || symbols[i] > ranges_[i].last) return std::nullopt;
  }
  const auto* known = example_.data();
  size_t next = 0;
  for (const Entry& entry : dynamic_) {
    if (!std::equal(known + next, known + entry.position, values.data() + next)) return std::nullopt;
    if (entry.value(symbols) != values[entry.position]) return std::nullopt;
    next = entry.position + 1;
  }
  if (!std::equal(known + next, known + example_.size(), values.data() + next)) return std::nullopt;
  return symbols;
}

std::map<std::string, int64_t> SizePattern::named(const SymbolValues& symbols) const {
  std::map<std::string, int64_t> values;
  for (size_t i = 0; i < num_symbols(); ++i) values[name_of(i)] = symbols[i];
  return values;
}

std::vector<int64_t> SizePattern::at(const SymbolValues& symbols) const {
  std::vector<int64_t> list = example_;
  for (const Entry& entry : dynamic_) list[entry.position] = entry.value(symbols);
  return list;
}

bool SizePattern::is_dynamic(size_t position) const {
  return std::any_of(dynamic_.begin(), dynamic_.end(), [&](const Entry& entry) { return entry.position == position; });
}

std::vector<int64_t> SizePattern::fixed_values() const {
  std::set<int64_t> values;
  for (size_t i = 0; i < example_.size(); ++i) {
    if (!is_dynamic(i)) values.insert(example_[i]);
  }
  return {values.begin(), values.end()};
}

}  // namespace diptych::detail
