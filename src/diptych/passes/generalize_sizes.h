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

/// Which sizes the graphs are for.
enum class SizeTrust : uint8_t {
  kChecked,  ///< any from 2 on, as the caller compares a trace at each size with the graphs before it serves that size
  kProbed,   ///< those of a range at whose ends, and at many sizes within, traces agree with the graphs
};

/// Note [Sizes by example]: sizes are no symbols while a function is traced; what depends on them is found by tracing
/// it at several, with one point more than polynomials need. A function may branch on a size, so that traces differ in
/// structure.
/// kChecked: points are sizes at which the structure is that at `actual`, wherever they lie: there may be other graphs
/// for the sizes between them. Where integers are no polynomials, runs of sizes that follow one another are added, from
/// which quotients that are rounded are known.
/// kProbed: for each symbol the range is searched, from 2 to four times the largest value that was met, in which traces
/// at its ends have the structure of that at `actual`, and so have those at the sizes within that programs branch on:
/// the least, those next to the sizes that were met, primes, and powers of two with their neighbours. What a function
/// does only at other single sizes is not seen. If no graphs are found, it is tried once more within the sizes that
/// were met.
/// None, with the reason in `why`, if that fails. Requires: `actual` is within the ranges of `pattern`.
std::optional<GeneralizedSizes> generalize_sizes(const SizePattern& pattern, const SymbolValues& actual,
                                                 const TraceAt& trace, SizeTrust trust, std::string& why);

}  // namespace diptych
