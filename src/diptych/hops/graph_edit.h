// Giving graphs further inputs and outputs, so that several bodies have one signature.
#pragma once
#include <memory>

#include "diptych/graph/graph.h"
#include "diptych/ops/emitter.h"

namespace diptych::detail {

/// Returns `graph` with inputs of these metadata, which nothing reads, in front of input number `position`.
Graph insert_inputs(const Graph& graph, size_t position, const std::vector<TensorMeta>& metas);

/// What takes the place of a result that this body does not compute: memory that nobody reads, or zeros.
enum class Filler : uint8_t { kEmpty, kZeros };

/// Returns `graph` with fillers of these metadata in front of output number `position`.
Graph insert_outputs(const Graph& graph, size_t position, const std::vector<TensorMeta>& metas, Filler filler);

/// Appends a node that makes a filler.
Value add_filler(Graph& graph, const TensorMeta& meta, Filler filler);

/// Appends nodes outside any scope, on the backward side.
class BackwardEmitter : public Emitter {
 public:
  explicit BackwardEmitter(Graph& graph) : Emitter(graph, like()) {}

 private:
  static const Node& like();
};

}  // namespace diptych::detail
