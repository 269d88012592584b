// Finds the graphs of a function for all sizes of a range from traces at several of them.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "diptych/passes/unify_sizes.h"

namespace diptych::detail {

/// Returns the graphs of a function for these values of the symbols, the same number of graphs each time; none if it
/// can't be traced there.
using TraceAt = std::function<std::optional<std::vector<Graph>>(const SymbolValues&)>;

struct GeneralizedSizes {
  std::vector<Graph> graphs;  ///< for all values within the pattern's ranges
  SizePattern pattern;
  std::vector<SymbolValues> points;  ///< the points that were traced; the first is the given one
};

/// The sizes for which the graphs are used.
enum class SizeTrust : uint8_t {
  kChecked,  ///< any from 2 on: the caller compares a trace at each size with the graphs before it serves that size
  kProbed,   ///< those of a range at whose ends, and at many sizes within, traces agree with the graphs
};

/// Note [Sizes by example]: sizes are not symbols while a function is traced; what depends on them is found by tracing
/// it at several sizes, with one point more than polynomials need. A function may branch on a size, so that traces
/// differ in structure.
/// kChecked: points are any sizes at which the structure is the same as at `actual`; sizes between them may have other
/// graphs. If an integer is not a polynomial, runs of consecutive sizes are added, which show which quotients are
/// rounded.
/// kProbed: for each symbol, the search finds a range, from 2 to four times the largest value that was met, at whose
/// ends traces have the structure that they have at `actual`, and so do traces at those sizes within on which programs
/// branch: the least, those next to the sizes that were met, primes, and powers of two with their neighbours. What a
/// function does only at other single sizes goes unnoticed. If no graphs are found, the search is repeated within the
/// sizes that were met.
/// None, with the reason in `why`, if that fails. Requires: `actual` is within the ranges of `pattern`.
std::optional<GeneralizedSizes> generalize_sizes(const SizePattern& pattern, const SymbolValues& actual,
                                                 const TraceAt& trace, SizeTrust trust, std::string& why);

}  // namespace diptych::detail
