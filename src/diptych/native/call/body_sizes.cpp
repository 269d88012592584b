#include "diptych/native/call/body_sizes.h"

#include <fmt/format.h>
#include <algorithm>

namespace diptych::detail {

BodySizes::BodySizes(const Graph& body) : binder_(body) {
  std::vector<int64_t> hints;
  for (const Value input : body.inputs()) {
    for (const SizeExpr& size : body.meta(input).sizes) {
      if (size.is_static()) continue;
      observed_.push_back(size);
      hints.push_back(size.hint());
    }
  }
  if (!binder_.open_symbol()) known_ = binder_.solve(hints);
}

bool BodySizes::follows_from_symbols(const SizeExpr& size) const {
  const auto symbols = size.symbols();
  return std::all_of(symbols.begin(), symbols.end(), [&](const auto& symbol) { return known_.contains(symbol.first); });
}

std::optional<BodySizes::Product> BodySizes::product_of(const SizeExpr& size) const {
  const auto times = [&](const SizeExpr& whole) -> std::optional<int64_t> {
    if (whole.hint() == 0 || size.hint() % whole.hint() != 0) return std::nullopt;
    const int64_t factor = size.hint() / whole.hint();
    return whole * SizeExpr(factor) == size ? std::optional(factor) : std::nullopt;
  };
  for (size_t i = 0; i < observed_.size(); ++i) {
    if (const auto factor = times(observed_[i])) return Product{*factor, {i}};
  }
  for (size_t i = 0; i < observed_.size(); ++i) {
    for (size_t j = i; j < observed_.size(); ++j) {
      if (const auto factor = times(observed_[i] * observed_[j])) return Product{*factor, {i, j}};
    }
  }
  return std::nullopt;
}

std::optional<std::string> BodySizes::problem(const std::vector<SizeExpr>& sizes) const {
  if (const auto open = binder_.open_symbol()) return fmt::format("{} does not follow from its inputs", *open);
  for (const SizeExpr& size : sizes) {
    if (!size.is_static() && !follows_from_symbols(size) && !product_of(size)) {
      return fmt::format("{} does not follow from the sizes of its inputs", size.str());
    }
  }
  return std::nullopt;
}

std::vector<int64_t> BodySizes::values(const std::vector<SizeExpr>& sizes, const std::vector<int64_t>& observed) const {
  const auto symbols = binder_.solve(observed);
  std::vector<int64_t> values;
  for (const SizeExpr& size : sizes) {
    if (size.is_static() || follows_from_symbols(size)) {
      values.push_back(size.evaluate(symbols));
      continue;
    }
    const Product product = *product_of(size);
    int64_t value = product.factor;
    for (const size_t place : product.places) value *= observed[place];
    values.push_back(value);
  }
  return values;
}

}  // namespace diptych::detail
