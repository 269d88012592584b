// Gathers by tensors of indices as kernels, by the evaluator and as machine code: results, and checks of the indices.
#include "backends/native/lowering_check.h"
#include "diptych/native/codegen/compiled_kernel.h"
#include "diptych/passes/decompose.h"

namespace diptych {
namespace {

using namespace detail;
using testing::GraphWriter;
using testing::integer;
using testing::Tensors;
using testing::values;

const std::vector<at::ScalarType> kGatheredDtypes = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16,
                                                     at::kLong,  at::kInt,    at::kByte, at::kBool};

at::Tensor table(at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat) {
  return at::isFloatingType(dtype) ? values(sizes).to(dtype) : values(sizes).mul(100).abs().to(at::kLong).to(dtype);
}
// Indices from `begin` to below `end`, mixed.
at::Tensor indices(at::IntArrayRef sizes, int64_t begin, int64_t end, at::ScalarType dtype = at::kLong) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return at::arange(count).mul(7).add(3).remainder(end - begin).add(begin).to(dtype).reshape(sizes);
}

// Expects what eager computes, of each output.
void expect_gathers(GraphWriter& w, const std::vector<Value>& outputs, const testing::Likeness& how = {}) {
  std::string why;
  const auto kernel = testing::lowered(w, outputs, &why);
  ASSERT_TRUE(kernel) << why << w.graph().code();
  EXPECT_TRUE(has_check(*kernel, w.graph()));
  const Tensors eager = w.tensors(outputs);
  EXPECT_TRUE(testing::same_tensors(testing::run_lowered(*kernel, w.graph(), w.inputs()), eager, how))
      << print(*kernel);
  ASSERT_EQ(codegen_problem(*kernel).value_or(""), "") << print(*kernel);
  EXPECT_TRUE(testing::same_tensors(testing::run_code(*kernel, w.graph(), w.inputs(), false), eager, how))
      << print(*kernel);
}

TEST(LowerGather, GathersAlongEachDim) {
  for (const auto dtype : kGatheredDtypes) {
    for (const int64_t dim : {0, 1, 2, -1}) {
      SCOPED_TRACE(dtype_name(dtype) + std::string(" along ") + std::to_string(dim));
      GraphWriter w;
      const at::Tensor x = table({3, 4, 5}, dtype);
      std::vector<int64_t> sizes{2, 3, 4};
      sizes[dim < 0 ? dim + 3 : dim] = 7;
      const Value index = w.input(indices(sizes, 0, x.size(dim)));
      expect_gathers(w, {w.call("aten.gather", {w.input(x), integer(dim), index})});
    }
  }
}

TEST(LowerGather, SelectsSlicesAlongEachDim) {
  for (const int64_t dim : {0, 1, -1}) {
    for (const auto dtype : {at::kLong, at::kInt}) {
      GraphWriter w;
      const at::Tensor x = table({3, 4, 5});
      const Value index = w.input(indices({9}, 0, x.size(dim), dtype));
      expect_gathers(w, {w.call("aten.index_select", {w.input(x), integer(dim), index})});
    }
  }
}

TEST(LowerGather, EmbedsWithWhatFollows) {
  GraphWriter w;
  const Value weight = w.input(values({11, 40})), positions = w.input(values({6, 40}, 1));
  const Value tokens = w.input(indices({3, 6}, 0, 11));
  const Value x = w.call("aten.add.Tensor", {w.call("aten.embedding", {weight, tokens}), positions});
  expect_gathers(w, {x, w.call("aten.sum.dim_IntList", {x, testing::ints({-1})})}, testing::within(1e-5));
}

TEST(LowerGather, IndexesByOneTensor) {
  for (const size_t dim : {0, 1, 2}) {
    for (const auto dtype : {at::kLong, at::kInt}) {
      GraphWriter w;
      const at::Tensor x = table({3, 4, 5});
      const auto size = x.size(static_cast<int64_t>(dim));
      ValueList list(dim);
      list.push_back(w.input(indices({2, 6}, -size, size, dtype)));
      if (dim == 0) list.emplace_back();
      expect_gathers(w, {w.call("aten.index.Tensor", {w.input(x), list})});
    }
  }
}

TEST(LowerGather, ReadsTablesThatLieOtherwiseByIndicesOfTheGroup) {
  GraphWriter w;
  const Value x = w.input(values({5, 4}).t()), i = w.input(indices({3, 5}, 0, 3));
  const Value index = w.call("aten.add.Tensor", {i, w.input(at::zeros({}, at::kLong))});
  const Value picked = w.call("aten.gather", {x, integer(0), index});
  expect_gathers(w, {w.call("aten.exp", {picked}), index}, testing::within(1e-6));
}

// As the loss of a class does: of what the group makes, one element of each row.
TEST(LowerGather, PicksFromWhatTheGroupMakes) {
  for (const auto dtype : kGatheredDtypes) {
    for (const int64_t dim : {0, 1}) {
      GraphWriter w;
      const Value x = w.input(table({6, 40}, dtype)),
                  index = w.input(indices({dim == 0 ? 1 : 6, dim == 0 ? 40 : 1}, 0, 6));
      const Value made =
          w.call("aten.neg", {dtype == at::kBool ? w.call("aten._to_copy", {x, c10::IValue(at::kInt)}) : x});
      expect_gathers(w, {w.call("aten.gather", {made, integer(dim), index})});
    }
  }
  GraphWriter w;
  const Value made = w.call("aten.exp", {w.input(values({4, 5}))});
  const Value several = w.call("aten.gather", {made, integer(1), w.input(indices({4, 2}, 0, 5))});
  EXPECT_FALSE(testing::lowered(w, {several}));
}

TEST(LowerGather, KeepsInfiniteNeighboursOut) {
  GraphWriter w;
  const at::Tensor x = values({4, 5});
  x.select(1, 0).fill_(std::numeric_limits<float>::infinity());
  x.select(1, 1).fill_(std::numeric_limits<float>::quiet_NaN());
  const Value made = w.call("aten.neg", {w.input(x)});
  expect_gathers(w, {w.call("aten.gather", {made, integer(1), w.input(indices({4, 1}, 0, 5))})}, {.equal_nan = true});
}

TEST(LowerGather, FindsIndicesOutOfRange) {
  const at::Tensor x = values({6, 40}), good = indices({3}, 0, 6);
  const auto wrong_with = [&](int64_t index) {
    const at::Tensor changed = good.clone();
    changed[1] = index;
    return changed;
  };
  for (const bool wraps : {false, true}) {
    GraphWriter w;
    const Value a = w.input(x), index = w.input(good);
    const Value y = wraps ? w.call("aten.index.Tensor", {a, ValueList{index}})
                          : w.call("aten.index_select", {a, integer(0), index});
    const auto kernel = testing::lowered(w, {y});
    ASSERT_TRUE(kernel);
    for (const int64_t tried : {int64_t{6}, int64_t{1} << 40, int64_t{-1}, int64_t{-6}, int64_t{-7}, INT64_MIN}) {
      const bool is_wrong = tried >= 6 || tried < (wraps ? -6 : 0);
      testing::run_lowered(*kernel, w.graph(), {x, wrong_with(tried)}, is_wrong);
      testing::run_code(*kernel, w.graph(), {x, wrong_with(tried)}, is_wrong);
    }
  }
}

TEST(LowerGather, MasksAndSeveralIndicesAreNotLowered) {
  GraphWriter w;
  const Value x = w.input(values({4, 5})), i = w.input(indices({3}, 0, 4));
  w.call("aten.index.Tensor", {x, ValueList{i, i}});
  w.call("aten.index.Tensor", {x, ValueList{w.input(at::ones({4}, at::kByte))}});
  w.call("aten.index.Tensor", {x, ValueList{w.input(at::ones({4, 5}, at::kBool))}});
  const Graph graph = w.finish({x});
  for (const Node& node : graph.nodes()) EXPECT_FALSE(is_lowered_to_kernels(graph, node)) << node.op.name();
}

// The loss of rows [batch, classes] from the logits: one kernel that stores two numbers and the check.
TEST(LowerGather, ACrossEntropyIsOneKernel) {
  for (const int64_t reduction : {0, 1, 2}) {
    GraphWriter w;
    const at::Tensor target = indices({20}, 0, 7);
    target[3] = target[7] = -100;
    const Value x = w.input(values({20, 7})), weight = w.input(values({7}, 2).abs());
    const Value logs = w.call("aten._log_softmax", {x, integer(1), c10::IValue(false)});
    const auto outputs =
        w.call_all("aten.nll_loss_forward", {logs, w.input(target), weight, integer(reduction), integer(-100)});
    const std::vector<Value> needed(outputs.begin(), outputs.begin() + (reduction == 0 ? 1 : 2));
    const Graph graph = decompose(w.finish(needed), is_lowered_to_kernels);
    std::string why;
    const auto kernel = lower_group(graph, &why);
    ASSERT_TRUE(kernel) << why << graph.code();
    ASSERT_EQ(codegen_problem(*kernel).value_or(""), "") << print(*kernel);
    EXPECT_EQ(kernel->outputs.size(), needed.size() + 1);
    EXPECT_TRUE(testing::same_tensors(testing::run_lowered(*kernel, graph, w.inputs()), w.tensors(needed),
                                      testing::within(2e-6)));
    EXPECT_TRUE(testing::same_tensors(testing::run_code(*kernel, graph, w.inputs(), false), w.tensors(needed),
                                      testing::within(2e-6)));
    Tensors wrong = w.inputs();
    wrong[2] = target.clone();
    wrong[2][5] = 7;
    testing::run_lowered(*kernel, graph, wrong, true);
    testing::run_code(*kernel, graph, wrong, true);
  }
}

}  // namespace
}  // namespace diptych
