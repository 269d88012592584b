// hop.scan and hop.blocked_scan as nodes of a graph: their schemas, attributes and results. How they run and what their
// derivatives are is in hops/.
#pragma once
#include "diptych/graph/hop_attributes.h"

namespace diptych::detail {

/// "scan(Tensor[] init, Tensor[] xs, Tensor[] free, int length, bool reverse, int unroll=1, int[] fronts=[])".
const HopSchema& scan_schema();
/// The same with `int block`, the steps that one run of the body makes, in the place of `unroll`.
const HopSchema& blocked_scan_schema();

/// The attributes of a scan's node.
struct ScanAttributes {
  int64_t length = 0;
  bool reverse = false;  ///< takes the last slice first
  int64_t unroll = 1;    ///< how many steps are run as one program
  /// Note [Stacks with a front]: per stack, the carry whose initial value the stack holds besides the rows of the
  /// steps, or -1. The initial value is the row that the step before the first would have written: it is in front of
  /// the other rows, and behind them in a reverse scan. Such a stack has one row more. If its rows are the carry after
  /// each step, then all rows but the one at one end are the carry after each step, and all but the one at the other
  /// end are the carry before each step, in one piece of memory.
  std::vector<int64_t> fronts = {};

  /// Reads the attributes of any operator that has `length` and `reverse`; others that it lacks have their defaults.
  static ScanAttributes of(const HopAttributes& attributes);
  bool has_front(size_t stack) const { return stack < fronts.size() && fronts[stack] >= 0; }
};

HopAttributes scan_attributes(const ScanAttributes& scan);
/// Requires: `block` divides the length.
HopAttributes blocked_scan_attributes(const ScanAttributes& scan, int64_t block);

/// Returns the metadata of what a scan over `body` returns: the last carries, then the stacks. `body` takes carries,
/// slices and free operands, and returns the next carries and a row of each stack.
std::vector<TensorMeta> scan_results(const Graph& body, size_t num_carries, const ScanAttributes& scan);
/// The same where the body returns `block` rows of each stack.
std::vector<TensorMeta> blocked_scan_results(const Graph& body, size_t num_carries, const ScanAttributes& scan);

}  // namespace diptych::detail
