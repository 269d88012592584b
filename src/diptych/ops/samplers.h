// Samples written as arithmetic on random bits: what a backend does that draws for itself.
#pragma once
#include <string_view>
#include <vector>

#include "diptych/ops/emitter.h"

namespace diptych::detail {

/// Random bits in a graph, taken one after another from a state: see draw_bits_operator().
class BitStream {
 public:
  /// `state`: i64 [2], a value of the emitter's graph.
  BitStream(Emitter& emitter, Value state);
  /// Returns bits of dtype i32 or i64.
  Expr take(const std::vector<int64_t>& sizes, at::ScalarType dtype);
  /// The state behind all bits that were taken.
  Value state() const { return state_; }

 private:
  Emitter& emitter_;
  Value state_;
};

/// One operator that draws, for operands that no generator of the caller's is among.
struct Sampler {
  std::string_view op;  ///< "aten.rand_like"
  /// Emits the nodes that make the sample from bits, contiguous, with the dtype and sizes of `result`.
  Expr (*sample)(const Call& call, const TensorMeta& result, BitStream& bits);
  /// Whether the rule is right for these operands; what eager refuses is not, so that eager says why.
  bool (*covers)(const Node& node, const TensorMeta& result);
};

/// Returns the row for a node that a rule covers; null for any other. Samples have eager's distributions, on the grids
/// of eager's floating-point numbers, from other numbers than eager's. Requires: a node without dynamic sizes.
/// Threads: any.
const Sampler* find_sampler(const Graph& graph, const Node& node);

/// Every row.
const std::vector<Sampler>& all_samplers();

}  // namespace diptych::detail
