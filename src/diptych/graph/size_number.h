// A floating-point number that depends on dynamic sizes, such as `1 / x.shape[0]`.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "diptych/graph/size_expr.h"

namespace diptych {

/// A function of the quotient of two sizes, computed in double precision, as a host program computes it.
struct SizeNumber {
  enum class Form : uint8_t { kQuotient, kRoot, kInverseRoot, kLogarithm };
  Form form = Form::kQuotient;
  SizeExpr top;
  SizeExpr bottom = 1;

  /// "quotient", "root", "inverse_root", "logarithm": what str() begins with.
  static std::string_view name_of(Form form);
  static double apply(Form form, double quotient);

  double evaluate(const std::map<std::string, int64_t>& symbols) const;
  /// The value that it had when traced.
  double hint() const;
  std::map<std::string, int64_t> symbols() const;
  /// "root(s0, 2)".
  std::string str() const;
  bool operator==(const SizeNumber&) const = default;
};

}  // namespace diptych
