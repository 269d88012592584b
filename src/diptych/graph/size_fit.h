// Which polynomial of symbols an integer is, from its values at some of them.
#pragma once
#include <c10/util/ArrayRef.h>

#include <optional>

#include "diptych/graph/size_expr.h"
#include "diptych/graph/size_pattern.h"

namespace diptych {

/// How many points tell every polynomial of degree two apart, and one more to check it with.
inline size_t num_fit_points(size_t num_symbols) { return (num_symbols + 1) * (num_symbols + 2) / 2 + 1; }

/// The polynomial that has `values[i]` at `points[i]`: a product of powers up to degree three times a fraction, that
/// plus a number, or any of degree one or two, in this order, if there are more points than it has coefficients. The
/// first point's symbols are the hints. None if there is no such polynomial whose values are integers everywhere.
std::optional<SizeExpr> fit_size(c10::ArrayRef<int64_t> values, c10::ArrayRef<SymbolValues> points, size_t num_symbols);

}  // namespace diptych
