// Finds the expression of sizes that a number is, from its values at several sizes.
#pragma once
#include <c10/util/ArrayRef.h>

#include <map>
#include <optional>
#include <vector>

#include "diptych/graph/size_fit.h"
#include "diptych/graph/size_number.h"

namespace diptych::detail {

/// Finds expressions for numbers that were observed at the same points. It remembers the quotients that it has found:
/// the length that a pool makes occurs again in strides and in products of sizes. Threads: one.
class SizeFitter {
 public:
  /// Requires: `points` outlives it.
  SizeFitter(c10::ArrayRef<SymbolValues> points, size_t num_symbols);

  /// Returns what fit_size() finds; else `floor((a*p + b)/d)` with a product p of up to two symbols, where the points,
  /// several more than a polynomial needs, leave no other b; else a product of symbols and such quotients times an
  /// integer, plus another; else the difference of such a product and a symbol.
  std::optional<SizeExpr> fit(c10::ArrayRef<int64_t> values);

  /// Remembers the values as a length of which other numbers may be products, if its expression has a rounded quotient.
  void learn(c10::ArrayRef<int64_t> values);

  /// Returns a function of a quotient of two expressions that fit() finds, if it has exactly these values, bit for bit.
  std::optional<SizeNumber> fit_number(c10::ArrayRef<double> values);

 private:
  struct Base {
    SizeExpr expression;
    std::vector<int64_t> values;  ///< at the points
  };
  std::optional<SizeExpr> find(const std::vector<int64_t>& values);
  std::optional<SizeExpr> fit_products(const std::vector<int64_t>& values) const;
  std::optional<SizeExpr> fit_difference(const std::vector<int64_t>& values) const;
  std::optional<SizeExpr> fit_floor(const std::vector<int64_t>& values);
  std::optional<SizeNumber> fit_quotient(c10::ArrayRef<double> values, SizeNumber::Form form,
                                         c10::ArrayRef<double> quotients);
  std::optional<SizeNumber> number_of(c10::ArrayRef<double> values, SizeNumber::Form form,
                                      const std::vector<int64_t>& top, const std::vector<int64_t>& bottom);

  c10::ArrayRef<SymbolValues> points_;
  size_t num_symbols_;
  std::vector<Base> products_;  ///< of up to two symbols
  std::vector<Base> bases_;     ///< the symbols, then rounded quotients in the order in which they were found or learnt
  std::map<std::vector<int64_t>, std::optional<SizeExpr>> known_;
  size_t num_bases_of_known_ = 0;  ///< how many bases there were when `known_` was filled
};

}  // namespace diptych::detail
