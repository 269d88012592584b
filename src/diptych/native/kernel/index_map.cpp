#include "diptych/native/kernel/index_map.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "diptych/base/check.h"

namespace diptych::detail {

IndexMap& IndexMap::add(const IndexTerm& term) {
  const auto place = [](const IndexTerm& of) { return std::tuple(of.factor, of.id, of.coefficient.symbol); };
  const auto at = std::lower_bound(terms_.begin(), terms_.end(), term,
                                   [&](const IndexTerm& a, const IndexTerm& b) { return place(a) < place(b); });
  const bool is_there = at != terms_.end() && place(*at) == place(term);
  int64_t factor = term.coefficient.factor;
  const bool overflows = is_there && __builtin_add_overflow(factor, at->coefficient.factor, &factor);
  // The text writes a sign and a magnitude, and the smallest integer has none.
  DIPTYCH_CHECK(!overflows && factor != std::numeric_limits<int64_t>::min(),
                "[kernel] a coefficient of an index map is {} + {}, which leaves 64 bits; use smaller coefficients",
                term.coefficient.factor, is_there ? at->coefficient.factor : 0);
  if (is_there && factor == 0) {
    terms_.erase(at);
  } else if (is_there) {
    at->coefficient.factor = factor;
  } else if (factor != 0) {
    terms_.insert(at, term);
  }
  return *this;
}

}  // namespace diptych::detail
