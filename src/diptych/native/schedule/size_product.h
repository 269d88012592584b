// Products of sizes that are known when code is made, and of those that each call gives.
#pragma once
#include <vector>

#include "diptych/native/kernel/kernel.h"

namespace diptych::detail {

/// A constant times symbols.
struct SizeProduct {
  int64_t factor = 1;
  std::vector<int32_t> symbols;

  SizeProduct(int64_t constant = 1) : factor(constant) {}    // NOLINT(google-explicit-constructor): as SizeExpr
  SizeProduct(const SizeTerm& size) : factor(size.factor) {  // NOLINT(google-explicit-constructor)
    if (!size.is_constant()) symbols.push_back(size.symbol);
  }

  bool is_constant() const { return symbols.empty(); }
  bool is(int64_t number) const { return is_constant() && factor == number; }
  SizeProduct operator*(const SizeProduct& other) const {
    SizeProduct product = *this;
    product.factor *= other.factor;
    product.symbols.insert(product.symbols.end(), other.symbols.begin(), other.symbols.end());
    return product;
  }
  /// Its value for these values of the symbols.
  int64_t at(const std::vector<int64_t>& values) const {
    int64_t product = factor;
    for (const int32_t symbol : symbols) product *= values[symbol];
    return product;
  }
};

}  // namespace diptych::detail
