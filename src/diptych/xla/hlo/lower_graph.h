// A whole graph as one StableHLO module.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "diptych/graph/graph.h"
#include "diptych/xla/hlo/mesh.h"

namespace diptych::detail {

/// What `main` of a module takes and returns.
enum class HloForm : uint8_t {
  /// Takes the inputs that are read, then the constants that are read, and returns the outputs that nodes make. Tensors
  /// pass in the order of their memory, without gaps: for callers that hand over memory as it lies.
  kInMemory,
  /// Takes every input, then every constant, and returns every output that is defined, with the graph's own sizes: for
  /// other programs, which know the slots alone.
  kComplete,
};

/// One parameter or result of a module.
struct HloSlot {
  size_t index = 0;  ///< which input, constant or output of the graph
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> sizes;  ///< of the tensor in the graph
  std::vector<int64_t> order;  ///< its dimensions as they pass: slowest first in memory, or 0, 1, 2...
  std::vector<int64_t> strides;
  /// The sizes in which it passes: in this order, perhaps after a dimension of one.
  std::vector<int64_t> passed;
  xla::Sharding sharding;  ///< of the tensor as it passes
};

/// A module with one public function, `main`; its parameters are `inputs`, then `constants`.
struct HloModule {
  std::string text;
  std::vector<HloSlot> inputs, constants, outputs;
  std::vector<size_t> donated;  ///< numbers of the parameters that results take the memory of
};

/// What a module says about its parameters and results besides their types. Positions are those of the graph.
struct HloAttributes {
  HloForm form = HloForm::kInMemory;
  /// An input whose memory an output may take, as a parameter's that is updated. Pairs that cannot share memory, since
  /// dtype, sizes, layout or sharding differ or one is not in the module, are passed over.
  struct Donation {
    size_t input, output;
  };
  std::vector<Donation> donated;
  xla::Mesh mesh;  ///< without axes: one device
  /// With a mesh: the shardings of inputs and outputs, from the first; those past the end are not split.
  std::vector<xla::Sharding> inputs, outputs;
};

/// Lowers a graph. Requires: every node has a lowering, and no size is dynamic.
/// Errors: UserError for a dtype that StableHLO does not have, and for a sharding that does not fit its tensor.
HloModule lower_graph(const Graph& graph, const HloAttributes& attributes = {});

}  // namespace diptych::detail
