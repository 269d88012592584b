#include "diptych/passes/generalize_sizes.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "diptych/graph/operand.h"

namespace diptych::detail {
namespace {

using Range = SizePattern::Range;

// Whether the sizes that are 0 or 1 in one graph are the same in the other: operators treat such sizes specially.
// Requires: graphs of the same structure.
bool same_small_sizes(const Graph& a, const Graph& b) {
  const auto differ = [](const SizeExpr& x, const SizeExpr& y) {
    return std::min(x.hint(), y.hint()) <= 1 && x.hint() != y.hint();
  };
  for (size_t i = 0; i < a.num_values(); ++i) {
    const Value value{static_cast<int32_t>(i)};
    const Sizes &left = a.meta(value).sizes, &right = b.meta(value).sizes;
    for (size_t d = 0; d < left.size(); ++d) {
      if (differ(left[d], right[d])) return false;
    }
  }
  return true;
}

// Whether numbers that are not sizes are the same in both graphs. Requires: graphs of the same structure.
bool same_numbers(const Graph& a, const Graph& b) {
  for (size_t i = 0; i < a.nodes().size(); ++i) {
    const Node &left = a.nodes()[i], &right = b.nodes()[i];
    for (size_t j = 0; j < left.operands.size(); ++j) {
      const OperandKind kind = operand_type(left.op, j).kind;
      const bool is_size = kind == OperandKind::kInt || kind == OperandKind::kInts || kind == OperandKind::kAny;
      if (!is_size && !identical(left.operands[j], right.operands[j])) return false;
    }
  }
  return true;
}

/// One search for ranges and points.
class Search {
 public:
  Search(const SizePattern& pattern, const SymbolValues& actual, const TraceAt& trace)
      : pattern_(pattern), actual_(actual), trace_(trace) {}

  bool can_trace() { return graphs_at(actual_).has_value(); }
  std::vector<Range> widest();
  std::optional<GeneralizedSizes> unify_within(const std::vector<Range>& ranges, std::string& why);
  std::optional<GeneralizedSizes> unify_alike(std::string& why);

 private:
  using Graphs = std::optional<std::vector<Graph>>;
  const Graphs& graphs_at(const SymbolValues& point);
  bool holds(const SymbolValues& point);
  bool is_alike(const SymbolValues& point);
  bool holds(size_t symbol, int64_t value) { return holds(with(symbol, value)); }
  SymbolValues with(size_t symbol, int64_t value) const;
  Range without_branches(size_t symbol, Range range);
  std::optional<GeneralizedSizes> unify(const std::vector<SymbolValues>& points, std::string& why);
  std::vector<int64_t> likely_sizes(size_t symbol) const;
  std::vector<SymbolValues> candidates(size_t count) const;
  std::optional<GeneralizedSizes> unify_part(const std::vector<SymbolValues>& points, size_t wanted);
  std::vector<Range> every_size() const { return {pattern_.num_symbols(), Range{2, kLargestSize}}; }
  void add_runs(int64_t length, std::vector<SymbolValues>& points);
  int64_t furthest(size_t symbol, int64_t met, int64_t wanted);
  std::vector<int64_t> ladder(Range range, int64_t actual, size_t count) const;
  std::optional<std::vector<SymbolValues>> points_in(const std::vector<Range>& ranges) const;

  const SizePattern& pattern_;
  const SymbolValues& actual_;
  const TraceAt& trace_;
  std::map<SymbolValues, Graphs> traced_;
};

// Traces each point only once: the ends of a range are tried, and then used for the fit.
const Search::Graphs& Search::graphs_at(const SymbolValues& point) {
  const auto [found, is_new] = traced_.try_emplace(point);
  if (is_new) found->second = trace_(point);
  return found->second;
}

SymbolValues Search::with(size_t symbol, int64_t value) const {
  SymbolValues point = actual_;
  point[symbol] = value;
  return point;
}

bool Search::holds(const SymbolValues& point) {
  const auto& first = *graphs_at(actual_);
  const auto& traced = graphs_at(point);
  return traced && std::equal(traced->begin(), traced->end(), first.begin(), first.end(), same_structure);
}

bool Search::is_alike(const SymbolValues& point) {
  if (!holds(point)) return false;
  const auto &first = *graphs_at(actual_), &here = *graphs_at(point);
  return std::equal(here.begin(), here.end(), first.begin(), first.end(), same_small_sizes);
}

// The value nearest to `wanted` at which the structure holds. It need not hold at `met`: a GPT's longest sequence takes
// all of its positions, a shorter one a slice of them.
int64_t Search::furthest(size_t symbol, int64_t met, int64_t wanted) {
  int64_t known = actual_[symbol];
  if (known == wanted || holds(symbol, wanted)) return wanted;
  if (known != met) (holds(symbol, met) ? known : wanted) = met;
  while (std::abs(wanted - known) > 1) {
    const int64_t middle = known + (wanted - known) / 2;
    (holds(symbol, middle) ? known : wanted) = middle;
  }
  return known;
}

std::vector<Range> Search::widest() {
  std::vector<Range> ranges = pattern_.ranges();
  for (size_t s = 0; s < ranges.size(); ++s) {
    const Range wide{furthest(s, ranges[s].first, 2), furthest(s, ranges[s].last, 4 * ranges[s].last)};
    ranges[s] = without_branches(s, wide);
  }
  return ranges;
}

// Sizes that programs branch on: the least, those next to the ones that were met, primes, powers of two with their
// neighbours, and multiples.
std::vector<int64_t> Search::likely_sizes(size_t symbol) const {
  const auto [first, last] = pattern_.ranges()[symbol];
  std::set<int64_t> sizes{2, 3, 5, 7, 11, 13, 17, 31, 61, 97, 127};
  for (const int64_t met : {first, last, actual_[symbol]}) {
    for (const int64_t size : {met - 2, met - 1, met, met + 1, met + 2, met + 3, 2 * met, 3 * met, 4 * met, met / 2}) {
      sizes.insert(size);
    }
  }
  for (int64_t power = 4; power <= 4 * last; power *= 2) sizes.insert({power - 1, power, power + 1});
  sizes.erase(sizes.begin(), sizes.lower_bound(2));
  sizes.erase(actual_[symbol]);
  return {sizes.begin(), sizes.end()};
}

// Returns the part of the range between those likely sizes with another structure that are next to the actual size.
Range Search::without_branches(size_t symbol, Range range) {
  for (const int64_t size : likely_sizes(symbol)) {
    if (size < range.first || size > range.last || holds(symbol, size)) continue;
    if (size < actual_[symbol]) range.first = size + 1;
    if (size > actual_[symbol]) range.last = size - 1;
  }
  return range;
}

// Returns `count` sizes other than `actual` from one end of a range to the other, further apart the larger they are;
// fewer if there is no room. It avoids sizes in between that also occur among sizes that never change, since different
// things might then happen to be equal.
std::vector<int64_t> Search::ladder(Range range, int64_t actual, size_t count) const {
  const auto fixed = pattern_.fixed_values();
  if (range.first == actual) ++range.first;
  if (range.last == actual) --range.last;
  const double steps = std::log(static_cast<double>(range.last) / static_cast<double>(range.first)) /
                       static_cast<double>(std::max<size_t>(count - 1, 1));
  std::vector<int64_t> values{range.first};
  for (size_t i = 1; i < count && values.back() < range.last; ++i) {
    auto value = std::llround(static_cast<double>(range.first) * std::exp(steps * static_cast<double>(i)));
    // Even and odd sizes alternate, since halves are rounded.
    value = std::max<int64_t>(value, values.back() + 1);
    if ((value - values.back()) % 2 == 0 && value < range.last) ++value;
    while (value < range.last && (value == actual || std::binary_search(fixed.begin(), fixed.end(), value))) ++value;
    values.push_back(value);
  }
  return values;
}

std::optional<std::vector<SymbolValues>> Search::points_in(const std::vector<Range>& ranges) const {
  const size_t count = num_fit_points(ranges.size());
  std::vector<SymbolValues> points(count, SymbolValues{});
  points[0] = actual_;
  for (size_t s = 0; s < ranges.size(); ++s) {
    const auto values = ladder(ranges[s], actual_[s], count - 1);
    if (values.size() < count - 1) return std::nullopt;
    // The lists are rotated against one another, so that no symbol is a function of another one.
    for (size_t i = 0; i + 1 < count; ++i) points[i + 1][s] = values[(i + s * s + s) % values.size()];
  }
  return points;
}

std::vector<Range> spanned(const std::vector<SymbolValues>& points, size_t num_symbols) {
  std::vector<Range> ranges;
  for (size_t s = 0; s < num_symbols; ++s) {
    const auto [first, last] =
        std::minmax_element(points.begin(), points.end(), [s](const auto& a, const auto& b) { return a[s] < b[s]; });
    ranges.push_back({(*first)[s], (*last)[s]});
  }
  return ranges;
}

std::optional<GeneralizedSizes> Search::unify_within(const std::vector<Range>& ranges, std::string& why) {
  auto points = points_in(ranges);
  if (!points) {
    why = "there are too few sizes between those seen so far to decide";
    return std::nullopt;
  }
  for (size_t s = 0; s < ranges.size(); ++s) {
    for (const int64_t size : likely_sizes(s)) {
      if (size >= ranges[s].first && size <= ranges[s].last) points->push_back(with(s, size));
    }
  }
  auto result = unify(*points, why);
  if (result) result->pattern.set_ranges(spanned(*points, pattern_.num_symbols()));
  return result;
}

// Returns up to `count` points, the most different ones first.
std::vector<SymbolValues> Search::candidates(size_t count) const {
  std::vector<std::vector<int64_t>> sizes;
  for (size_t s = 0; s < pattern_.num_symbols(); ++s) {
    const Range wide{2, 4 * pattern_.ranges()[s].last};
    auto& list = sizes.emplace_back(ladder(wide, actual_[s], num_fit_points(pattern_.num_symbols()) - 1));
    const auto likely = likely_sizes(s);
    list.insert(list.end(), likely.rbegin(), likely.rend());
  }
  std::vector<SymbolValues> points;
  for (size_t i = 0; i < count; ++i) {
    SymbolValues point{};
    for (size_t s = 0; s < sizes.size(); ++s) point[s] = sizes[s][(i + s * s + s) % sizes[s].size()];
    if (point != actual_ && std::find(points.begin(), points.end(), point) == points.end()) points.push_back(point);
  }
  return points;
}

void Search::add_runs(int64_t length, std::vector<SymbolValues>& points) {
  for (size_t s = 0; s < pattern_.num_symbols(); ++s) {
    for (int64_t step = 1; step <= length; ++step) {
      const SymbolValues point = with(s, actual_[s] + step);
      if (std::find(points.begin(), points.end(), point) == points.end() && is_alike(point)) points.push_back(point);
    }
  }
}

// A branch may show in numbers alone, as one between `x * 2` and `x * 3` does. This unifies only points that may be on
// the same branch as `actual`: those that have its numbers, or lie on one side of it, or leave the same remainder.
std::optional<GeneralizedSizes> Search::unify_part(const std::vector<SymbolValues>& points, size_t wanted) {
  const auto pick = [&](const auto& is_in) {
    std::vector<SymbolValues> part;
    const auto add = [&](const SymbolValues& point) {
      const bool is_new = std::find(part.begin(), part.end(), point) == part.end();
      if (is_new && part.size() < 2 * wanted && is_in(point) && is_alike(point)) part.push_back(point);
    };
    add(actual_);
    for (const SymbolValues& point : points) add(point);
    for (const SymbolValues& point : candidates(8 * wanted)) add(point);
    std::string why;
    auto result = part.size() < wanted ? std::nullopt : unify(part, why);
    if (result) result->pattern.set_ranges(every_size());
    return result;
  };
  const auto all = [&](const SymbolValues& point, const auto& holds_for) {
    for (size_t s = 0; s < pattern_.num_symbols(); ++s) {
      if (!holds_for(point[s], actual_[s])) return false;
    }
    return true;
  };
  const auto has_numbers = [&](const SymbolValues& point) {
    if (!is_alike(point)) return false;
    const auto &first = *graphs_at(actual_), &here = *graphs_at(point);
    return std::equal(here.begin(), here.end(), first.begin(), first.end(), same_numbers);
  };
  if (auto result = pick(has_numbers)) return result;
  if (auto result = pick([&](const auto& point) { return all(point, std::greater_equal<>()); })) return result;
  if (auto result = pick([&](const auto& point) { return all(point, std::less_equal<>()); })) return result;
  for (const int64_t divisor : {2, 3, 4, 5, 6, 8}) {
    const auto congruent = [&](int64_t a, int64_t b) { return a % divisor == b % divisor; };
    if (auto result = pick([&](const auto& point) { return all(point, congruent); })) return result;
  }
  return std::nullopt;
}

std::optional<GeneralizedSizes> Search::unify_alike(std::string& why) {
  const size_t wanted = num_fit_points(pattern_.num_symbols());
  std::vector<SymbolValues> points{actual_};
  size_t tried = 0;
  for (const SymbolValues& point : candidates(8 * wanted)) {
    // A function that makes a different graph at each size is given up early.
    if (points.size() == wanted || (++tried > 2 * wanted && points.size() == 1)) break;
    if (is_alike(point)) points.push_back(point);
  }
  if (points.size() < wanted) {
    why = "there are too few sizes at which the function produces the same graphs";
    return std::nullopt;
  }
  auto result = unify(points, why);
  // Only large strides need long runs, which take many traces.
  for (const int64_t length : {8, 32}) {
    if (result) break;
    add_runs(length, points);
    result = unify(points, why);
    if (!result) result = unify_part(points, wanted);
  }
  if (result) result->pattern.set_ranges(every_size());
  return result;
}

std::optional<GeneralizedSizes> Search::unify(const std::vector<SymbolValues>& points, std::string& why) {
  std::vector<std::vector<Graph>> by_graph(graphs_at(actual_)->size());
  for (const SymbolValues& point : points) {
    const auto& traced = graphs_at(point);
    if (!traced || traced->size() != by_graph.size()) {
      why = "the function can't be traced, or produces other graphs, at a size in between";
      return std::nullopt;
    }
    for (size_t i = 0; i < by_graph.size(); ++i) by_graph[i].push_back((*traced)[i]);
  }
  GeneralizedSizes result{{}, pattern_, points};
  for (const auto& graphs : by_graph) {
    auto unified = unify_sizes(graphs, points, pattern_.num_symbols(), &why);
    if (!unified) return std::nullopt;
    result.graphs.push_back(std::move(*unified));
  }
  return result;
}

}  // namespace

std::optional<GeneralizedSizes> generalize_sizes(const SizePattern& pattern, const SymbolValues& actual,
                                                 const TraceAt& trace, SizeTrust trust, std::string& why) {
  Search search(pattern, actual, trace);
  if (!search.can_trace()) {
    why = "the function can't be traced";
    return std::nullopt;
  }
  if (trust == SizeTrust::kChecked) return search.unify_alike(why);
  auto widest = search.unify_within(search.widest(), why);
  if (widest) return widest;
  std::string why_not_less;
  return search.unify_within(pattern.ranges(), why_not_less);
}

}  // namespace diptych::detail
