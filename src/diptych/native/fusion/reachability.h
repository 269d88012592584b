// Which units of work depend on which, while units are merged.
#pragma once
#include <cstdint>
#include <vector>

namespace diptych::detail {

/// A directed graph without cycles, of up to a few thousand units, that answers at once whether one depends on another.
/// Merging keeps it without cycles.
class Reachability {
 public:
  /// `sources`: by unit, those that it depends on directly, all of lower number.
  explicit Reachability(const std::vector<std::vector<size_t>>& sources);

  /// The unit that `unit` is part of now.
  size_t find(size_t unit) const;
  /// Whether `unit` depends on `other`, directly or not. Requires: both are what find() returns.
  bool depends(size_t unit, size_t other) const { return (ancestors_[unit][other / 64] >> (other % 64) & 1) != 0; }
  /// Whether one of two units depends on the other through a third, so that they can't be one.
  bool would_be_cyclic(size_t a, size_t b) const;
  /// Makes two units one, and returns it. Requires: not would_be_cyclic().
  size_t merge(size_t a, size_t b);

 private:
  using Bits = std::vector<uint64_t>;

  bool depends_through_third(size_t unit, size_t other) const;

  std::vector<size_t> parents_;
  std::vector<std::vector<size_t>> sources_;  // of units that are not part of another; may name parts of units
  std::vector<Bits> ancestors_;
};

}  // namespace diptych::detail
