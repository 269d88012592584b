// Graphs for all sizes of a range, from tracing a function at some.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "diptych/passes/unify_sizes.h"

namespace diptych {

/// The graphs of a function for these values of the symbols, each time as many; none if it can't be traced there.
using TraceAt = std::function<std::optional<std::vector<Graph>>(const SymbolValues&)>;

struct GeneralizedSizes {
  std::vector<Graph> graphs;  ///< for all values within the pattern's ranges
  SizePattern pattern;
  std::vector<SymbolValues> points;  ///< that were traced; the first is the one that was given
};

/// Note [Sizes by example]: sizes are no symbols while a function is traced; what depends on them is found by tracing
/// it at several. For each symbol the range is searched, from 2 to four times the largest value that was met, in which
/// traces at its ends have the structure of that at `actual`. Graphs traced at points all over these ranges are
/// unified; there is one point more than the polynomials need. What a function does only at single sizes in between is
/// not seen. If that fails it is tried once more within the sizes that were met. None, with the reason in `why`, if
/// that fails, too. Requires: `actual` is within the ranges of `pattern`.
std::optional<GeneralizedSizes> generalize_sizes(const SizePattern& pattern, const SymbolValues& actual,
                                                 const TraceAt& trace, std::string& why);

}  // namespace diptych
