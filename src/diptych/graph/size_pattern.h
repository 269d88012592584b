// What lists of corresponding sizes have in common: which entries never change, which are symbols, and which follow
// from the symbols.
#pragma once
#include <c10/util/ArrayRef.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace diptych::detail {

/// Exponents of a product of symbols.
inline constexpr size_t kMostSymbols = 4;
using Powers = std::array<uint8_t, kMostSymbols>;
using SymbolValues = std::array<int64_t, kMostSymbols>;

/// The largest value of a size that changes.
inline constexpr int64_t kLargestSize = int64_t{1} << 40;

/// All products of up to `degree` of the first `num_symbols` symbols, low degrees first: 1, s0, s1, s0*s0 ...
std::vector<Powers> power_products(size_t num_symbols, int degree);
__int128 product_at(const Powers& powers, const SymbolValues& symbols);

/// A list of integers, such as all sizes and strides of a call's tensors, some of which depend on symbols. An entry
/// that depends on symbols and is not a symbol itself is either an integer times powers of symbols, all shifted by the
/// same integer of at most 2, or a symbol plus a small integer: that is how sizes and strides follow from batch sizes
/// and lengths. Threads: const members from any.
class SizePattern {
 public:
  /// Returns the pattern of which all of `examples` (two or more) are instances. Entries that differ and do not follow
  /// from smaller ones are symbols. None if the lists differ in length, if they are alike, if an entry that changes is
  /// 0 or 1 in one of them, since such sizes are special cases, or if there would be more than kMostSymbols symbols.
  static std::optional<SizePattern> of(c10::ArrayRef<std::vector<int64_t>> examples);

  /// Does the same for `latest` and those of the `earlier` lists that have a pattern with it; lists with a 0 or 1 where
  /// sizes change do not. None if no list does.
  static std::optional<SizePattern> with(c10::ArrayRef<std::vector<int64_t>> earlier,
                                         const std::vector<int64_t>& latest);

  size_t num_symbols() const { return symbols_.size(); }
  /// s0, s1 ...
  static std::string name_of(size_t symbol);
  struct Range {
    int64_t first;
    int64_t last;
  };
  /// The values that each symbol may have: the range that the examples span, until other ranges are set.
  const std::vector<Range>& ranges() const { return ranges_; }
  void set_ranges(std::vector<Range> ranges) { ranges_ = std::move(ranges); }

  /// Returns the symbols of a list that is an instance of the pattern and within the ranges; otherwise none. Those
  /// beyond num_symbols() are 0.
  std::optional<SymbolValues> match(c10::ArrayRef<int64_t> values) const;
  /// Returns these values by the names of the symbols.
  std::map<std::string, int64_t> named(const SymbolValues& symbols) const;
  /// Returns the list for these symbols.
  std::vector<int64_t> at(const SymbolValues& symbols) const;
  /// Whether an entry depends on a symbol.
  bool is_dynamic(size_t position) const;
  /// The integers that occur and never change, in order, each once.
  std::vector<int64_t> fixed_values() const;

 private:
  struct Entry {
    uint32_t position;
    int64_t scale;
    int64_t shift;  ///< added to each symbol
    int64_t offset;
    Powers powers;
    int64_t value(const SymbolValues& symbols) const;
  };
  static std::optional<Entry> derive(c10::ArrayRef<std::vector<int64_t>> examples, const std::vector<uint32_t>& symbols,
                                     uint32_t position);

  std::vector<int64_t> example_;
  std::vector<uint32_t> symbols_;  ///< positions
  std::vector<Entry> dynamic_;     ///< in order of positions, the symbols among them
  std::vector<Range> ranges_;
};

}  // namespace diptych::detail
