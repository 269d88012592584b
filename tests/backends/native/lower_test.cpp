// Groups of nodes as kernels: their space, views between nodes, reductions with what follows, and what is refused.
#include <algorithm>

#include "backends/native/lowering_check.h"
#include "diptych/native/lower/group_space.h"
#include "diptych/passes/decompose.h"

namespace diptych {
namespace {

using namespace detail;
using testing::GraphWriter;
using testing::integer;
using testing::ints;
using testing::like_eager;
using testing::lowered;
using testing::number;
using testing::values;
using testing::within;

Operand flag(bool value) { return c10::IValue(value); }

TEST(Lower, AChainOfPointwiseNodesOverADenseTensorIsOneDim) {
  GraphWriter w;
  const Value x = w.input(values({2, 3, 4})), y = w.input(values({2, 3, 4}, 1));
  const Value z = w.call("aten.mul.Tensor", {w.call("aten.exp", {x}), y});
  const auto kernel = lowered(w, {z});
  ASSERT_TRUE(kernel);
  EXPECT_EQ(print(*kernel),
            "kernel graph(d0=24) {\n"
            "  x0 : f32\n"
            "  x1 : f32\n"
            "  y0 : f32\n"
            "  %0 : f32 = load x0[d0]\n"
            "  %1 : f32 = exp %0\n"
            "  %2 : f32 = load x1[d0]\n"
            "  %3 : f32 = mul %1, %2\n"
            "  store y0[d0] = %3\n"
            "}\n");
  EXPECT_TRUE(like_eager(w, {z}, within(1e-6)));
}

TEST(Lower, ABroadcastOperandKeepsTheDimsThatItNeeds) {
  GraphWriter w;
  const Value x = w.input(values({2, 3, 4})), bias = w.input(values({4}));
  const Value y = w.call("aten.add.Tensor", {x, bias});
  const auto kernel = lowered(w, {y});
  ASSERT_TRUE(kernel);
  EXPECT_EQ(kernel->extents, (std::vector<SizeTerm>{{6}, {4}}));
  EXPECT_TRUE(like_eager(w, {y}));
}

TEST(Lower, ViewsAndPermutationsBetweenNodesAreFree) {
  GraphWriter w;
  const Value x = w.input(values({2, 3, 8}));
  const Value heads = w.call("aten.view", {w.call("aten.exp", {x}), ints({2, 3, 4, 2})});
  const Value turned = w.call("aten.permute", {heads, ints({0, 2, 1, 3})});
  const Value y = w.call("aten.neg", {turned});
  EXPECT_TRUE(like_eager(w, {y}, within(1e-6)));
  EXPECT_EQ(lowered(w, {y})->values.size(), 3U);
}

TEST(Lower, SoftmaxIsOneKernelWithTwoReductions) {
  GraphWriter w;
  const Value x = w.input(values({6, 5}));
  const Value shifted = w.call("aten.sub.Tensor", {x, w.call("aten.amax", {x, ints({1}), flag(true)})});
  const Value e = w.call("aten.exp", {shifted});
  const Value y = w.call("aten.div.Tensor", {e, w.call("aten.sum.dim_IntList", {e, ints({1}), flag(true)})});
  EXPECT_TRUE(like_eager(w, {y}, within(1e-6)));
  EXPECT_EQ(lowered(w, {y})->extents.size(), 2U);
}

TEST(Lower, RowsAndColumnsOfOneSpaceAreReducedByOneKernel) {
  GraphWriter w;
  const Value x = w.input(values({6, 5})), g = w.input(values({6, 5}, 2));
  const Value p = w.call("aten.mul.Tensor", {x, g});
  const Value rows = w.call("aten.sum.dim_IntList", {p, ints({1}), flag(false)});
  const Value columns = w.call("aten.sum.dim_IntList", {p, ints({0}), flag(false)});
  EXPECT_TRUE(like_eager(w, {p, rows, columns}, within(1e-6)));
}

TEST(Lower, DimsAreInTheOrderOfTheLargestTensor) {
  GraphWriter w;
  const Value x = w.input(values({2, 3, 5}));
  const Value columns = w.call("aten.sum.dim_IntList", {w.call("aten.exp", {x}), ints({0, 1}), flag(false)});
  EXPECT_TRUE(like_eager(w, {columns}, within(1e-6)));
  EXPECT_EQ(lowered(w, {columns})->extents, (std::vector<SizeTerm>{{6}, {5}}));
}

TEST(Lower, PositionsCountInTheOrderOfTheTensorsDims) {
  GraphWriter w;
  const Value x = w.input(values({4, 6}).t());
  const Value first = w.call("aten.argmax", {x}), e = w.call("aten.exp", {x});
  EXPECT_TRUE(like_eager(w, {first, e}, within(1e-6)));
  // The turned tensor counts the same dims in the other order, which one kernel can't.
  const Value second = w.call("aten.argmax", {w.call("aten.t", {e})});
  std::string why;
  EXPECT_FALSE(lowered(w, {first, second}, &why));
  EXPECT_EQ(why, "a position that counts dims in another order: aten.argmax");
}

TEST(Lower, AReductionOfAViewEndsThePartsOfAnAxis) {
  GraphWriter w;
  const Value x = w.input(values({2, 12}));
  const Value groups = w.call("aten.view", {w.call("aten.neg", {x}), ints({2, 3, 4})});
  const Value sums = w.call("aten.sum.dim_IntList", {groups, ints({2}), flag(true)});
  const Value y = w.call("aten.view", {w.call("aten.sub.Tensor", {groups, sums}), ints({24})});
  EXPECT_TRUE(like_eager(w, {y}, within(1e-6)));
}

TEST(Lower, AnInputMayBeReadAlongSeveralAxes) {
  GraphWriter w;
  const Value x = w.input(values({4, 4}));
  const Value y = w.call("aten.add.Tensor", {x, w.call("aten.t", {x})});
  EXPECT_TRUE(like_eager(w, {y}));
}

TEST(Lower, AValueOfTheGroupIsReadAlongItsOwnAxesAlone) {
  GraphWriter w;
  const Value x = w.input(values({4, 4}));
  const Value e = w.call("aten.exp", {x});
  const Value y = w.call("aten.add.Tensor", {e, w.call("aten.t", {e})});
  std::string why;
  EXPECT_FALSE(lowered(w, {y}, &why));
  EXPECT_EQ(why, "no common iteration space with aten.add.Tensor");
}

TEST(Lower, ARowSumDoesNotMeetTheColumns) {
  GraphWriter w;
  const Value x = w.input(values({4, 4}));
  const Value e = w.call("aten.exp", {x});
  const Value sums = w.call("aten.sum.dim_IntList", {e, ints({1}), flag(false)});
  const Value y = w.call("aten.sub.Tensor", {e, sums});  // along the columns
  EXPECT_FALSE(lowered(w, {y}));
}

TEST(Lower, AViewThatCutsNoAxisEvenlyIsRefused) {
  GraphWriter w;
  const Value x = w.input(values({4, 6}));
  const Value y = w.call("aten.neg", {w.call("aten.view", {w.call("aten.exp", {x}), ints({6, 4})})});
  EXPECT_FALSE(lowered(w, {y}));
}

TEST(Lower, ANodeThatReadsElsewhereNeedsALoad) {
  GraphWriter w;
  const Value x = w.input(values({4, 6}));
  const std::vector<Operand> half = {integer(1), integer(3), integer(6)};
  const auto slice_of = [&](Value value) { return w.call("aten.slice.Tensor", {value, half[0], half[1], half[2]}); };
  const Value y = w.call("aten.exp", {slice_of(x)});
  EXPECT_TRUE(like_eager(w, {y}, within(1e-6)));
  const Value z = w.call("aten.exp", {slice_of(w.call("aten.neg", {x}))});
  EXPECT_FALSE(lowered(w, {z}));
}

TEST(Lower, RotaryPositionsAreOneKernel) {
  GraphWriter w;
  const Value q = w.input(values({2, 3, 8})), angle = w.input(values({3, 4}, 1));
  const auto half = [&](int64_t from) {
    return w.call("aten.slice.Tensor", {q, integer(2), integer(from), integer(from + 4)});
  };
  const auto twice = [&](Value x) { return w.call("aten.cat", {ValueList{x, x}, integer(1)}); };
  const Value turned = w.call("aten.cat", {ValueList{w.call("aten.neg", {half(4)}), half(0)}, integer(-1)});
  const Value cosine = twice(w.call("aten.cos", {angle})), sine = twice(w.call("aten.sin", {angle}));
  const Value y =
      w.call("aten.add.Tensor", {w.call("aten.mul.Tensor", {q, cosine}), w.call("aten.mul.Tensor", {turned, sine})});
  EXPECT_TRUE(like_eager(w, {y}, within(1e-6)));
  EXPECT_EQ(lowered(w, {y})->extents.size(), 4U);
}

TEST(Lower, PartsOfOtherSizesAreJoinedOnlyIfTheyAreLoads) {
  GraphWriter w;
  const Value x = w.input(values({2, 3})), y = w.input(values({2, 5}));
  const Value z = w.call("aten.exp", {w.call("aten.cat", {ValueList{x, y}, integer(1)})});
  EXPECT_TRUE(like_eager(w, {z}, within(1e-6)));
  const Value u = w.call("aten.cat", {ValueList{w.call("aten.exp", {x}), y}, integer(1)});
  EXPECT_FALSE(lowered(w, {u}));
}

TEST(Lower, OutputsKeepTheirStridesAndInputsTheirs) {
  GraphWriter w;
  const Value x = w.input(values({3, 4}).t()), y = w.input(values({4, 6}).slice(1, 0, 6, 2));
  const Value z = w.call("aten.mul.Tensor", {x, y});
  testing::Likeness how;
  how.strides = true;
  EXPECT_TRUE(like_eager(w, {z}, how));
}

TEST(Lower, OutputsWithGapsAndInputsAsOutputsAreRefused) {
  GraphWriter w;
  const Value x = w.input(values({4}));
  const Value spread = w.call("aten.expand", {w.call("aten.neg", {x}), ints({3, 4})});
  std::string why;
  EXPECT_FALSE(lowered(w, {spread}, &why));
  EXPECT_EQ(why, "an output with gaps or several elements at one place");
  EXPECT_FALSE(lowered(w, {x}, &why));
  EXPECT_EQ(why, "an output that no node of the group makes");
}

TEST(Lower, ConstantsOfOneElementAreNumbers) {
  GraphWriter w;
  const Value x = w.input(values({4}));
  const Value y = w.call("aten.mul.Tensor", {x, w.constant(at::scalar_tensor(2.5))});
  EXPECT_TRUE(like_eager(w, {y}));
  EXPECT_EQ(lowered(w, {y})->values.size(), 3U);
  const Value z = w.call("aten.mul.Tensor", {x, w.constant(values({4}))});
  EXPECT_FALSE(lowered(w, {z}));
}

TEST(Lower, EqualValuesAreMadeOnceAndUnusedOnesNotAtAll) {
  GraphWriter w;
  const Value x = w.input(values({4}));
  const Value a = w.call("aten.exp", {x}), b = w.call("aten.exp", {x});
  w.call("aten.log", {x});
  const Value y = w.call("aten.add.Tensor", {a, b});
  EXPECT_EQ(lowered(w, {y})->values.size(), 3U);  // load, exp, add
}

TEST(Lower, HalvesAreRoundedAfterEachNode) {
  GraphWriter w;
  const Value x = w.input(values({64}).to(at::kBFloat16)), y = w.input(values({64}, 1).to(at::kBFloat16));
  const Value z = w.call("aten.add.Tensor", {w.call("aten.mul.Tensor", {x, y}), number(0.1)});
  EXPECT_TRUE(like_eager(w, {z}));
}

TEST(Lower, TensorsWithoutElementsAndComplexHalvesAreRefused) {
  GraphWriter w;
  const Value empty = w.input(at::empty({0, 3})), complex = w.input(at::zeros({3}, at::kComplexFloat));
  const Value half = w.input(at::zeros({3}, at::kComplexHalf));
  const Value y = w.call("aten.neg", {empty}), z = w.call("aten.neg", {half});
  const Graph graph = w.finish({y, z, w.call("aten.asin", {complex}), w.call("aten.neg", {complex})});
  for (const size_t node : {0, 1, 2}) EXPECT_FALSE(is_lowered_to_kernels(graph, graph.nodes()[node])) << node;
  EXPECT_TRUE(is_lowered_to_kernels(graph, graph.nodes()[3]));
}

TEST(Lower, AnEmptyViewOfTheSpaceStaysAsItWasAfterARefusal) {
  GraphWriter w;
  const Value x = w.input(values({4, 4}));
  const Value e = w.call("aten.exp", {x});
  w.call("aten.add.Tensor", {e, w.call("aten.t", {e})});
  const Value sums = w.call("aten.sum.dim_IntList", {e, ints({1}), flag(false)});
  const Graph graph = w.finish({sums});
  GroupSpace space(graph);
  EXPECT_TRUE(space.add(0));
  EXPECT_TRUE(space.add(1));
  const GroupSpace before = space;
  EXPECT_FALSE(space.add(2));
  EXPECT_TRUE(space.add(3));
  EXPECT_EQ(space.nodes(), (std::vector<size_t>{0, 1, 3}));
  EXPECT_EQ(before.nodes(), (std::vector<size_t>{0, 1}));
  EXPECT_EQ(space.extents(), (Sizes{4, 4}));
  EXPECT_EQ(space.domain(e), (DimSet{0b11}));
  EXPECT_EQ(space.domain(sums), (DimSet{0b01}));
  EXPECT_EQ(space.reduced(3), (DimSet{0b10}));
}

TEST(Lower, NodesMayBeAddedBeforeThoseThatTheyRead) {
  GraphWriter w;
  const Value x = w.input(values({4, 5}));
  const Value e = w.call("aten.exp", {x});
  const Value y = w.call("aten.neg", {w.call("aten.t", {e})});
  const Graph graph = w.finish({y});
  GroupSpace space(graph);
  EXPECT_TRUE(space.add(2));
  EXPECT_TRUE(space.add(1));
  EXPECT_TRUE(space.add(0));
  EXPECT_EQ(space.extents().size(), 2U);
  EXPECT_EQ(space.domain(x), space.domain(y));
}

// A composite operator, decomposed as far as kernels have no row for it, is one kernel that computes what eager does.
void expect_one_kernel(const std::string& op, const testing::Tensors& tensors, const std::vector<Operand>& rest,
                       const testing::Likeness& how = within(2e-6)) {
  SCOPED_TRACE(op);
  GraphWriter w;
  std::vector<Operand> operands;
  for (const at::Tensor& tensor : tensors) operands.push_back(w.input(tensor));
  operands.insert(operands.end(), rest.begin(), rest.end());
  const auto outputs = w.call_all(op, operands);
  const Graph graph = decompose(w.finish(outputs), is_lowered_to_kernels);
  std::string why;
  const auto kernel = lower_group(graph, &why);
  ASSERT_TRUE(kernel) << why << "\n" << graph.code();
  EXPECT_TRUE(testing::same_tensors(testing::run_lowered(*kernel, graph, w.inputs()), w.tensors(outputs), how))
      << print(*kernel);
}

TEST(Lower, SoftmaxesAndTheirGradientsAreOneKernelEach) {
  const at::Tensor x = values({3, 4, 5}), g = values({3, 4, 5}, 1), y = x.softmax(1);
  const std::vector<Operand> forward = {integer(1), flag(false)};
  expect_one_kernel("aten._softmax", {x}, forward);
  expect_one_kernel("aten._log_softmax", {x}, forward);
  const Operand dtype = integer(static_cast<int64_t>(at::kFloat));
  expect_one_kernel("aten._softmax_backward_data", {g, y}, {integer(1), dtype});
  expect_one_kernel("aten._log_softmax_backward_data", {g, y.log()}, {integer(1), dtype});
  expect_one_kernel("aten._softmax", {x.to(at::kBFloat16)}, forward, within(1.0 / 128));
}

TEST(Lower, NormalizationsAndTheirGradientsAreOneKernelEach) {
  const at::Tensor x = values({6, 8}), g = values({6, 8}, 1), weight = values({8}, 2), bias = values({8}, 3);
  GraphWriter w;
  const Value input = w.input(x), scale = w.input(weight), shift = w.input(bias), gradient = w.input(g);
  const auto forward = w.call_all("aten.native_layer_norm", {input, ints({8}), scale, shift, c10::IValue(1e-5)});
  const Operand all = c10::IValue(c10::List<bool>({true, true, true}));
  const auto backward = w.call_all("aten.native_layer_norm_backward",
                                   {gradient, input, ints({8}), forward[1], forward[2], scale, shift, all});
  auto outputs = forward;
  outputs.insert(outputs.end(), backward.begin(), backward.end());
  const Graph graph = decompose(w.finish(outputs), is_lowered_to_kernels);
  std::string why;
  const auto kernel = lower_group(graph, &why);
  ASSERT_TRUE(kernel) << why << graph.code();
  EXPECT_EQ(kernel->extents.size(), 2U);
  EXPECT_TRUE(testing::same_tensors(testing::run_lowered(*kernel, graph, w.inputs()), w.tensors(outputs), within(2e-6)))
      << print(*kernel);
}

TEST(Lower, ABatchNormalizationInTrainingIsOneKernel) {
  GraphWriter w;
  const Value x = w.input(values({3, 4, 5, 2})), weight = w.input(values({4}, 1)), bias = w.input(values({4}, 2));
  const Value mean = w.input(values({4}, 3)), variance = w.input(values({4}, 4).abs());
  const auto outputs = w.call_all("aten._native_batch_norm_legit_functional",
                                  {x, weight, bias, mean, variance, flag(true), c10::IValue(0.1), c10::IValue(1e-5)});
  const Graph graph = decompose(w.finish(outputs), is_lowered_to_kernels);
  std::string why;
  const auto kernel = lower_group(graph, &why);
  ASSERT_TRUE(kernel) << why << graph.code();
  EXPECT_TRUE(
      testing::same_tensors(testing::run_lowered(*kernel, graph, w.inputs()), w.tensors(outputs), within(3e-6)));
}

}  // namespace
}  // namespace diptych
