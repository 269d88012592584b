#include "diptych/native/lower/size_table.h"

#include <array>

namespace diptych::detail {
namespace {

bool divides(int64_t divisor, const SizeExpr& size) {
  return size.divisor() == 1 && size.hint() % divisor == 0 && size.divided_by(divisor).divisor() == 1;
}

// A size as an expression without the small factors that all its terms have, and their product.
std::pair<SizeExpr, int64_t> without_factors(SizeExpr size) {
  constexpr std::array<int64_t, 6> kFactors = {2, 3, 5, 7, 11, 13};
  int64_t factor = 1;
  if (size.hint() < 0) {
    size = SizeExpr(0) - size;
    factor = -1;
  }
  if (size.hint() == 0) return {size, factor};
  for (const int64_t each : kFactors) {
    for (; divides(each, size); factor *= each) size = size.divided_by(each);
  }
  return {size, factor};
}

}  // namespace

SizeTerm SizeTable::term(const SizeExpr& size) {
  if (size.is_static()) return {size.hint()};
  const auto [expression, factor] = without_factors(size);
  for (size_t i = 0; i < symbols_.size(); ++i) {
    if (symbols_[i] == expression) return {factor, static_cast<int32_t>(i)};
  }
  symbols_.push_back(expression);
  return {factor, static_cast<int32_t>(symbols_.size()) - 1};
}

SizeExpr SizeTable::size(const SizeTerm& term) const {
  return term.is_constant() ? SizeExpr(term.factor) : symbols_[term.symbol] * SizeExpr(term.factor);
}

std::optional<SizeExpr> quotient(const SizeExpr& whole, const SizeExpr& part, const SizeExpr& likely) {
  if (part.is_static()) {
    if (part.hint() <= 0) return std::nullopt;
    if (whole.is_static()) {
      return whole.hint() % part.hint() == 0 ? std::optional<SizeExpr>(whole.hint() / part.hint()) : std::nullopt;
    }
    return divides(part.hint(), whole) ? std::optional(whole.divided_by(part.hint())) : std::nullopt;
  }
  if (whole.is_static() || whole.divisor() != 1) return std::nullopt;
  const auto is_quotient = [&](const SizeExpr& candidate) { return part * candidate == whole; };
  if (part.hint() > 0 && is_quotient(whole.hint() / part.hint())) return whole.hint() / part.hint();
  if (is_quotient(likely)) return likely;
  for (const auto& [name, hint] : whole.symbols()) {
    const SizeExpr symbol = SizeExpr::symbol(name, hint);
    if (is_quotient(symbol)) return symbol;
  }
  return std::nullopt;
}

}  // namespace diptych::detail
