#include "diptych/passes/generalize_sizes.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace diptych {
namespace {

using Range = SizePattern::Range;

/// One search for ranges and points.
class Search {
 public:
  Search(const SizePattern& pattern, const SymbolValues& actual, const TraceAt& trace)
      : pattern_(pattern), actual_(actual), trace_(trace) {}

  bool can_trace() { return graphs_at(actual_).has_value(); }
  std::vector<Range> widest();
  std::optional<GeneralizedSizes> unify(const std::vector<Range>& ranges, std::string& why);

 private:
  using Graphs = std::optional<std::vector<Graph>>;
  const Graphs& graphs_at(const SymbolValues& point);
  bool holds(size_t symbol, int64_t value);
  int64_t furthest(size_t symbol, int64_t met, int64_t wanted);
  std::vector<int64_t> ladder(Range range, int64_t actual, size_t count) const;
  std::optional<std::vector<SymbolValues>> points_in(const std::vector<Range>& ranges) const;

  const SizePattern& pattern_;
  const SymbolValues& actual_;
  const TraceAt& trace_;
  std::map<SymbolValues, Graphs> traced_;
};

// Each point once: the ends of a range are tried, and then used for the fit.
const Search::Graphs& Search::graphs_at(const SymbolValues& point) {
  const auto [found, is_new] = traced_.try_emplace(point);
  if (is_new) found->second = trace_(point);
  return found->second;
}

bool Search::holds(size_t symbol, int64_t value) {
  SymbolValues point = actual_;
  point[symbol] = value;
  const auto& first = *graphs_at(actual_);
  const auto& traced = graphs_at(point);
  return traced && std::equal(traced->begin(), traced->end(), first.begin(), first.end(), same_structure);
}

// The value nearest to `wanted` at which the structure holds. It need not at `met`: a GPT's longest sequence takes all
// of its positions, a shorter one a slice of them.
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
    ranges[s] = {furthest(s, ranges[s].first, 2), furthest(s, ranges[s].last, 4 * ranges[s].last)};
  }
  return ranges;
}

// `count` sizes from one end of a range to the other but `actual`, further apart the larger they are; fewer if there is
// no room. In between those are avoided that also occur among sizes that never change: two things may then happen to be
// the same.
std::vector<int64_t> Search::ladder(Range range, int64_t actual, size_t count) const {
  const auto fixed = pattern_.fixed_values();
  if (range.first == actual) ++range.first;
  if (range.last == actual) --range.last;
  const double steps = std::log(static_cast<double>(range.last) / static_cast<double>(range.first)) /
                       static_cast<double>(std::max<size_t>(count - 1, 1));
  std::vector<int64_t> values{range.first};
  for (size_t i = 1; i < count && values.back() < range.last; ++i) {
    auto value = std::llround(static_cast<double>(range.first) * std::exp(steps * static_cast<double>(i)));
    // Even and odd ones in turn, as halves are rounded.
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
    // Turned against one another, so that no symbol is a function of another one.
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

std::optional<GeneralizedSizes> Search::unify(const std::vector<Range>& ranges, std::string& why) {
  const auto points = points_in(ranges);
  if (!points) {
    why = "there are too few sizes between those that were met to tell";
    return std::nullopt;
  }
  std::vector<std::vector<Graph>> by_graph(graphs_at(actual_)->size());
  for (const SymbolValues& point : *points) {
    const auto& traced = graphs_at(point);
    if (!traced || traced->size() != by_graph.size()) {
      why = "the function can't be traced, or makes other graphs, at a size in between";
      return std::nullopt;
    }
    for (size_t i = 0; i < by_graph.size(); ++i) by_graph[i].push_back((*traced)[i]);
  }
  GeneralizedSizes result{{}, pattern_, *points};
  for (const auto& graphs : by_graph) {
    auto unified = unify_sizes(graphs, *points, pattern_.num_symbols(), &why);
    if (!unified) return std::nullopt;
    result.graphs.push_back(std::move(*unified));
  }
  result.pattern.set_ranges(spanned(*points, pattern_.num_symbols()));
  return result;
}

}  // namespace

std::optional<GeneralizedSizes> generalize_sizes(const SizePattern& pattern, const SymbolValues& actual,
                                                 const TraceAt& trace, std::string& why) {
  Search search(pattern, actual, trace);
  if (!search.can_trace()) {
    why = "the function can't be traced";
    return std::nullopt;
  }
  auto widest = search.unify(search.widest(), why);
  if (widest) return widest;
  std::string why_not_less;
  return search.unify(pattern.ranges(), why_not_less);
}

}  // namespace diptych
