// Random bits; what is made of them is arithmetic in the graph.
#include "diptych/xla/hlo/lowering.h"

namespace diptych::detail {
namespace {

std::vector<Hlo> draw_bits(const Lowering& node) {
  return node.writer().random_bits(node.tensor(0), node.dtype(), node.sizes());
}

constexpr LoweringRow kRandomRows[] = {{"diptych.draw_bits", draw_bits}};

}  // namespace

std::span<const LoweringRow> random_lowerings() { return kRandomRows; }

}  // namespace diptych::detail
