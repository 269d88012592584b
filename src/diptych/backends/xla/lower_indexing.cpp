// Elements and rows by position: embeddings, gathers, scatters, triangles.
#include "diptych/backends/xla/lowering.h"

namespace diptych::detail {
namespace {

std::vector<Hlo> embedding(const Lowering& node) { return {node.writer().take(node.tensor(0), node.tensor(1), 0)}; }

std::vector<Hlo> arange(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo position = writer.iota(node.dtype(), node.sizes(), 0);
  const Hlo scaled = writer.binary("multiply", position, node.filled(node.scalar(2, 1), position));
  return {writer.binary("add", scaled, node.filled(node.scalar(0), scaled))};
}

constexpr LoweringRow kIndexingRows[] = {
    {"aten.embedding", embedding},
    {"aten.arange.start_step", arange},
};

}  // namespace

std::span<const LoweringRow> indexing_lowerings() { return kIndexingRows; }

}  // namespace diptych::detail
