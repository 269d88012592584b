// Finds the polynomial of symbols that an integer is, from its values at several points.
#pragma once
#include <c10/util/ArrayRef.h>

#include <optional>

#include "diptych/graph/size_expr.h"
#include "diptych/graph/size_pattern.h"

namespace diptych::detail {

/// The number of points that determine a polynomial of degree two, and one more to check it with.
inline size_t num_fit_points(size_t num_symbols) { return (num_symbols + 1) * (num_symbols + 2) / 2 + 1; }

/// Returns the polynomial that has `values[i]` at `points[i]`. It tries, in this order, a product of powers up to
/// degree three times a fraction, the same plus a number, and any polynomial of degree one or two that has fewer
/// coefficients than there are points. The first point's symbols are the hints. None if there is no such polynomial
/// whose values are integers everywhere.
std::optional<SizeExpr> fit_size(c10::ArrayRef<int64_t> values, c10::ArrayRef<SymbolValues> points, size_t num_symbols);

}  // namespace diptych::detail
