// The sizes that a kernel depends on.
#pragma once
#include <optional>
#include <vector>

#include "diptych/graph/size_expr.h"
#include "diptych/native/kernel/index_map.h"

namespace diptych::detail {

/// Sizes as kernels write them. A size that does not depend on symbols of the graph is a constant; any other one is a
/// constant times a symbol of the kernel, which stands for an expression.
class SizeTable {
 public:
  /// The term of a size. Expressions that are multiples of one another share a symbol.
  SizeTerm term(const SizeExpr& size);
  /// What a term is. Requires: one that term() returned, or a constant.
  SizeExpr size(const SizeTerm& term) const;
  /// By symbol of the kernel.
  const std::vector<SizeExpr>& symbols() const { return symbols_; }
  void set_symbols(std::vector<SizeExpr> symbols) { symbols_ = std::move(symbols); }

 private:
  std::vector<SizeExpr> symbols_;
};

inline bool is_one(const SizeExpr& size) { return size.is_static() && size.hint() == 1; }

/// Returns `whole / part` if it is an integer, or a product of a polynomial with integers as coefficients, for all
/// values of the symbols. `likely`: quotients that are tried beside those that are seen from the two; a quotient may be
/// missed, so none says nothing.
std::optional<SizeExpr> quotient(const SizeExpr& whole, const SizeExpr& part, const SizeExpr& likely);

}  // namespace diptych::detail
