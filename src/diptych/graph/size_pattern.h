// What lists of sizes of the same meaning have in common: which entries never change, which are symbols, and which
// follow from the symbols.
#pragma once
#include <c10/util/ArrayRef.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace diptych {

/// Exponents of a product of symbols.
inline constexpr size_t kMostSymbols = 4;
using Powers = std::array<uint8_t, kMostSymbols>;
using SymbolValues = std::array<int64_t, kMostSymbols>;

/// No size that changes is larger.
inline constexpr int64_t kLargestSize = int64_t{1} << 40;

/// All products of up to `degree` of the first `num_symbols` symbols, low degrees first: 1, s0, s1, s0*s0 ...
std::vector<Powers> power_products(size_t num_symbols, int degree);
__int128 product_at(const Powers& powers, const SymbolValues& symbols);

/// A list of integers, such as all sizes and strides of a call's tensors, some of which depend on symbols. An entry
////// that is no symbol itself is a product of an integer and powers of symbols, to each of which 2 or less is added or
/// subtracted, or a symbol plus a small integer: what batch sizes and lengths make of sizes and strides. Threads: const
/// members from any.
class SizePattern {
 public:
  /// The pattern of which all of `examples` (two or more) are instances. Entries that differ and follow from no smaller
  /// one are symbols. None if the lists differ in length, if they are alike, if an entry that changes is 0 or 1 in one
  /// of them, as such sizes are cases of their own, or if there would be more than kMostSymbols symbols.
  static std::optional<SizePattern> of(c10::ArrayRef<std::vector<int64_t>> examples);

  /// The same for `latest` and those of `earlier` lists that have a pattern with it, which lists with a 0 or 1 where
  /// sizes change have not. None if no list has.
  static std::optional<SizePattern> with(c10::ArrayRef<std::vector<int64_t>> earlier,
                                         const std::vector<int64_t>& latest);

  size_t num_symbols() const { return symbols_.size(); }
  /// s0, s1 ...
  static std::string name_of(size_t symbol);
  struct Range {
    int64_t first;
    int64_t last;
  };
  /// The values that each symbol may have: what the examples span until others are set.
  const std::vector<Range>& ranges() const { return ranges_; }
  void set_ranges(std::vector<Range> ranges) { ranges_ = std::move(ranges); }

  /// The symbols of a list that is an instance of the pattern and within the ranges; else none. Those beyond
  /// num_symbols() are 0.
  std::optional<SymbolValues> match(c10::ArrayRef<int64_t> values) const;
  /// These values by the names of the symbols.
  std::map<std::string, int64_t> named(const SymbolValues& symbols) const;
  /// The list for these symbols.
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

}  // namespace diptych
