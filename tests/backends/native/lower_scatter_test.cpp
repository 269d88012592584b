// Sums at places that tensors of indices name as kernels, by the evaluator and as machine code, beside eager.
#include "backends/native/lowering_check.h"
#include "diptych/native/codegen/compiled_kernel.h"

namespace diptych {
namespace {

using namespace detail;
using testing::GraphWriter;
using testing::integer;
using testing::Tensors;
using testing::values;

const std::vector<at::ScalarType> kAddedDtypes = {at::kFloat, at::kDouble, at::kLong, at::kInt, at::kShort, at::kByte};

at::Tensor numbers(at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat, double shift = 0) {
  const at::Tensor x = values(sizes, shift);
  return at::isFloatingType(dtype) ? x.to(dtype) : x.mul(100).to(at::kLong).to(dtype);
}
// Indices from `begin` to below `end`, several of which are equal.
at::Tensor places(at::IntArrayRef sizes, int64_t begin, int64_t end, at::ScalarType dtype = at::kLong) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return at::arange(count).mul(at::arange(count)).add(3).remainder(end - begin).add(begin).to(dtype).reshape(sizes);
}

// Expects what eager computes. `has_code`: whether machine code is made of it.
void expect_sums(GraphWriter& w, const std::vector<Value>& outputs, bool has_code = true) {
  std::string why;
  const auto kernel = testing::lowered(w, outputs, &why);
  ASSERT_TRUE(kernel) << why << w.graph().code();
  const Tensors eager = w.tensors(outputs);
  const auto how = testing::within(1e-5);
  EXPECT_TRUE(testing::same_tensors(testing::run_lowered(*kernel, w.graph(), w.inputs()), eager, how))
      << print(*kernel);
  ASSERT_EQ(codegen_problem(*kernel).has_value(), !has_code) << codegen_problem(*kernel).value_or("") << print(*kernel);
  if (!has_code) return;
  EXPECT_TRUE(testing::same_tensors(testing::run_code(*kernel, w.graph(), w.inputs(), false), eager, how))
      << print(*kernel);
}

TEST(LowerScatter, AddsSlicesAlongEachDim) {
  for (const auto dtype : kAddedDtypes) {
    for (const int64_t dim : {0, 1, 2, -1}) {
      for (const int64_t alpha : {1, 3}) {
        GraphWriter w;
        const at::Tensor base = numbers({3, 4, 5}, dtype);
        std::vector<int64_t> sizes{3, 4, 5};
        sizes[dim < 0 ? dim + 3 : dim] = 9;
        const Value index = w.input(places({9}, 0, base.size(dim), dim == 1 ? at::kInt : at::kLong));
        const Value source = w.input(numbers(sizes, dtype, 1));
        SCOPED_TRACE(dtype_name(dtype) + std::string(" along ") + std::to_string(dim));
        expect_sums(w, {w.call("aten.index_add", {w.input(base), integer(dim), index, source, integer(alpha)})},
                    /*has_code=*/dim == 0 || dim == 1);
      }
    }
  }
}

TEST(LowerScatter, AddsElementsAlongEachDim) {
  for (const auto dtype : kAddedDtypes) {
    for (const int64_t dim : {0, 1, 2}) {
      GraphWriter w;
      const at::Tensor base = numbers({3, 4, 5}, dtype);
      std::vector<int64_t> sizes{3, 4, 5};
      sizes[dim] = 9;
      const Value index = w.input(places(sizes, 0, base.size(dim))), source = w.input(numbers(sizes, dtype, 1));
      SCOPED_TRACE(dtype_name(dtype) + std::string(" along ") + std::to_string(dim));
      expect_sums(w, {w.call("aten.scatter_add", {w.input(base), integer(dim), index, source})},
                  /*has_code=*/dim < 2);
    }
  }
}

TEST(LowerScatter, PutsByOneTensorOfIndices) {
  for (const size_t dim : {0, 1}) {
    GraphWriter w;
    const at::Tensor base = numbers({3, 4, 5});
    const auto size = base.size(static_cast<int64_t>(dim));
    ValueList list(dim);
    list.push_back(w.input(places({2, 6}, -size, size)));
    if (dim == 0) list.emplace_back();
    const Value source = w.input(dim == 0 ? numbers({2, 6, 4, 5}) : numbers({3, 2, 6, 5}));
    expect_sums(w, {w.call("aten.index_put", {w.input(base), list, source, c10::IValue(true)})});
  }
}

TEST(LowerScatter, AddsGradientsOfEmbeddings) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    for (const int64_t padding : {-1, 4}) {
      for (const auto& sizes : {std::vector<int64_t>{6, 7}, {300}, {1}, {1, 1}, {1, 9}}) {
        std::vector<int64_t> all = sizes;
        all.push_back(40);
        GraphWriter w;
        const Value gradient = w.input(numbers(all, dtype)), tokens = w.input(places(sizes, 0, 11));
        expect_sums(w, {w.call("aten.embedding_dense_backward",
                               {gradient, tokens, integer(11), integer(padding), c10::IValue(false)})});
      }
    }
  }
}

// What is added is computed where it is read, and the sums are added to what else the table's gradient is.
TEST(LowerScatter, FusesWhatIsAddedAndWhatItIsAddedTo) {
  GraphWriter w;
  const Value gradient = w.input(values({60, 33})), factor = w.input(values({33}, 2));
  const Value tokens = w.input(places({60}, 0, 500)), other = w.input(values({500, 33}, 3));
  const Value added = w.call("aten.mul.Tensor", {gradient, factor});
  const Value sums =
      w.call("aten.embedding_dense_backward", {added, tokens, integer(500), integer(-1), c10::IValue(false)});
  expect_sums(w, {w.call("aten.add.Tensor", {w.call("aten.exp", {other}), sums})});
  GraphWriter z;
  const Value source = z.input(values({60, 33})), index = z.input(places({60}, 0, 500));
  const Value zeros = z.call("aten.new_zeros", {source, testing::ints({500, 33})});
  expect_sums(z, {z.call("aten.index_add", {zeros, integer(0), index, z.call("aten.exp", {source})})});
}

// Of these more is made than a sum, so that it would have to be complete before.
TEST(LowerScatter, HasNoCodeWhereTheSumsAreUsedOtherwise) {
  for (const bool is_stored : {false, true}) {
    GraphWriter w;
    const Value gradient = w.input(values({9, 8})), tokens = w.input(places({9}, 0, 20));
    const Value sums =
        w.call("aten.embedding_dense_backward", {gradient, tokens, integer(20), integer(-1), c10::IValue(false)});
    const Value more = w.call("aten.exp", {sums});
    expect_sums(w, is_stored ? std::vector<Value>{more, sums} : std::vector<Value>{more}, /*has_code=*/false);
  }
}

// Slices and what they are added to, made of one tensor that has as many rows: the two do not run together.
TEST(LowerScatter, KeepsSlicesApartFromPositions) {
  for (const bool is_made : {false, true}) {
    GraphWriter w;
    const Value x = w.input(values({9, 8})), index = w.input(places({9}, 0, 9));
    const Value source = w.call("aten.exp", {x}), base = is_made ? w.call("aten.neg", {x}) : x;
    const Value sums = w.call("aten.index_add", {base, integer(0), index, source});
    if (!is_made) {
      expect_sums(w, {sums});
    } else {
      EXPECT_FALSE(testing::lowered(w, {sums}));
    }
    EXPECT_FALSE(testing::lowered(w, {w.call("aten.mul.Tensor", {sums, source})}));
  }
}

TEST(LowerScatter, FindsIndicesOutOfRange) {
  const at::Tensor base = values({6, 40}), source = values({3, 40}, 1), good = places({3}, 0, 6);
  for (const bool wraps : {false, true}) {
    GraphWriter w;
    const Value a = w.input(base), index = w.input(good), b = w.input(source);
    const Value y = wraps ? w.call("aten.index_put", {a, ValueList{index}, b, c10::IValue(true)})
                          : w.call("aten.index_add", {a, integer(0), index, b});
    const auto kernel = testing::lowered(w, {y});
    ASSERT_TRUE(kernel);
    for (const int64_t tried : {int64_t{6}, int64_t{1} << 40, int64_t{-1}, int64_t{-6}, int64_t{-7}, INT64_MIN}) {
      at::Tensor changed = good.clone();
      changed[1] = tried;
      const bool is_wrong = tried >= 6 || tried < (wraps ? -6 : 0);
      testing::run_lowered(*kernel, w.graph(), {base, changed, source}, is_wrong);
      testing::run_code(*kernel, w.graph(), {base, changed, source}, is_wrong);
    }
  }
}

TEST(LowerScatter, WhatIsRoundedAtEachAdditionIsNotLowered) {
  GraphWriter w;
  const Value x = w.input(numbers({6, 4}, at::kBFloat16)), i = w.input(places({3}, 0, 6));
  const Value source = w.input(numbers({3, 4}, at::kBFloat16)), exact = w.input(values({6, 4}));
  w.call("aten.index_add", {x, integer(0), i, source});
  w.call("aten.index_put", {exact, ValueList{i}, w.input(values({3, 4})), c10::IValue(false)});
  w.call("aten.index_put", {exact, ValueList{i}, w.input(values({4})), c10::IValue(true)});
  w.call("aten.scatter_add", {exact, integer(0), w.input(places({3, 2}, 0, 6)), w.input(values({3, 4}))});
  w.call("aten.embedding_dense_backward",
         {w.input(values({3, 4})), i, integer(6), integer(-1), c10::IValue(/*scale_grad_by_freq=*/true)});
  const Graph graph = w.finish({x});
  for (const Node& node : graph.nodes()) EXPECT_FALSE(is_lowered_to_kernels(graph, node)) << node.op.name();
}

}  // namespace
}  // namespace diptych
