// The table of residuals, word for word.
#include <torch/types.h>

#include "diptych/passes/partition.h"
#include "testing/graph_writer.h"

namespace diptych {
namespace {

using testing::GraphWriter;

Joint small_joint() {
  GraphWriter writer("joint");
  const Value x = writer.input(torch::randn({4, 8}), "batch.x");
  const Value w = writer.input(torch::randn({8, 8}).requires_grad_(), "params.w");
  const Value h = writer.call("aten.mm", {x, w});
  writer.scope = InternedString("block0");
  const Value y = writer.call("aten.tanh", {h});
  const Value flat = writer.call("aten.view", {y, testing::ints({32})});
  const Value z = writer.call("aten.mul.Tensor", {flat, flat});
  writer.phase = Phase::kBackward;
  const Value g = writer.input(torch::randn({32}), "tangents.0", SlotKind::kTangent);
  const Value gf = writer.call("aten.view", {writer.call("aten.mul.Tensor", {g, flat}), testing::ints({4, 8})});
  const Value gh = writer.call("aten.tanh_backward", {gf, y});
  const Value gw = writer.call("aten.mm", {writer.call("aten.t", {x}), gh});
  return {writer.finish({z, Value{}, gw}), {2, 0, 1, 1, 0}};
}

TEST(Explain, ListsEachResidualAndATotal) {
  const auto split = split_joint(small_joint(), default_partition());
  EXPECT_EQ(explain(split),
            "residual  type         bytes  made by              wanted by\n"
            "%0        f32[4,8]         0  input batch.x        aten.t\n"
            "%3        f32[4,8]       128  aten.tanh in block0  aten.tanh_backward\n"
            "%4        f32[32]          0  aten.view in block0  aten.mul.Tensor\n"
            "total     3 residuals    128\n");
}

TEST(Explain, TotalIsResidualBytes) {
  for (const auto& partitioner : {default_partition(), min_cut(), memory_budget(0)}) {
    const auto split = split_joint(small_joint(), partitioner);
    int64_t sum = 0;
    for (const auto& row : explain_rows(split)) sum += row.bytes;
    EXPECT_EQ(sum, residual_bytes(split)) << partitioner.name;
  }
}

TEST(Explain, AnOutputThatIsSavedCostsNothingNew) {
  GraphWriter writer("joint");
  const Value x = writer.input(torch::randn({4}).requires_grad_(), "x");
  const Value y = writer.call("aten.tanh", {x});
  writer.phase = Phase::kBackward;
  const Value g = writer.input(torch::randn({4}), "tangents.0", SlotKind::kTangent);
  const Joint joint{writer.finish({y, writer.call("aten.tanh_backward", {g, y})}), {1, 0, 1, 1, 0}};
  const auto split = split_joint(joint, default_partition());
  EXPECT_EQ(split.saved, std::vector<Value>{y});
  EXPECT_EQ(residual_bytes(split), 0);
}

}  // namespace
}  // namespace diptych
