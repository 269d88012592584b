// Index maps: which element of a buffer a point of the iteration space reads or writes.
#pragma once
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

namespace diptych::detail {

inline constexpr int32_t kMaxDims = 64;        ///< as many as a DimSet has bits; ATen's iterators have no more either
inline constexpr int32_t kMaxSymbols = 65536;  ///< far above any call's; a number beyond it is a slip

/// A set of a kernel's dims, one bit each.
struct DimSet {
  uint64_t bits = 0;

  static DimSet of(int32_t dim) { return {uint64_t{1} << dim}; }
  bool contains(int32_t dim) const { return (bits >> dim & 1) != 0; }
  bool empty() const { return bits == 0; }
  int count() const { return std::popcount(bits); }
  DimSet operator|(DimSet other) const { return {bits | other.bits}; }
  DimSet operator&(DimSet other) const { return {bits & other.bits}; }
  DimSet without(DimSet other) const { return {bits & ~other.bits}; }
  bool operator==(const DimSet&) const = default;
};

/// A constant, or a constant times a symbol: an extent, a coefficient, or a part of an offset.
struct SizeTerm {
  static constexpr int32_t kNoSymbol = -1;
  int64_t factor = 0;
  int32_t symbol = kNoSymbol;

  bool is_constant() const { return symbol == kNoSymbol; }
  bool operator==(const SizeTerm&) const = default;
};

/// What a coefficient is multiplied by: nothing, a dim, or a value of the body (which makes the map indirect).
enum class IndexFactor : uint8_t { kOne, kDim, kValue };

/// One addend of an index: 3, 2*s0, 1024*d0, s1*d2 or s0*%4.
struct IndexTerm {
  SizeTerm coefficient;
  IndexFactor factor = IndexFactor::kOne;
  int32_t id = 0;  ///< of the dim or the value; 0 for kOne

  bool operator==(const IndexTerm&) const = default;
};

/// A sum of terms: the number of an element, counted from the buffer's first. Views are maps: a broadcast dim has no
/// term, a transposed one another coefficient, a flipped one a negative coefficient and an offset.
/// Canonical, so that maps that are the same sum are equal: offsets come first, then dims, then values, each by its
/// number and then by the symbol of the coefficient; no coefficient is zero and no two terms could be one.
class IndexMap {
 public:
  IndexMap() = default;
  /// Adds a term, in its place. Errors: UserError if the sum of two coefficients leaves 64 bits.
  IndexMap& add(const IndexTerm& term);
  const std::vector<IndexTerm>& terms() const { return terms_; }
  bool operator==(const IndexMap&) const = default;

 private:
  std::vector<IndexTerm> terms_;
};

/// Short ways to write the terms.
inline IndexTerm offset_term(SizeTerm coefficient) { return {coefficient, IndexFactor::kOne, 0}; }
inline IndexTerm dim_term(SizeTerm coefficient, int32_t dim) { return {coefficient, IndexFactor::kDim, dim}; }
inline IndexTerm value_term(SizeTerm coefficient, int32_t value) { return {coefficient, IndexFactor::kValue, value}; }

}  // namespace diptych::detail
