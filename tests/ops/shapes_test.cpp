// What shape functions answer and refuse; samples/ compares them with the CPU kernels.
#include "diptych/ops/shapes.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "samples/judge_shapes.h"

namespace diptych::test {

using namespace detail;
namespace {

TEST(Shapes, FastPathsAnswerPlainInputs) {
  const at::Tensor x = f32({4, 3, 5}), bias = f32({5});
  const Samples plain = {sample("aten.add.Tensor", {x, x}),
                         sample("aten.mul.Tensor", {x, bias}),
                         sample("aten.tanh", {x}),
                         sample("aten.mul.Scalar", {x, 2}),
                         sample("aten.gelu_backward", {x, x}),
                         sample("aten.view", {x, ints({12, -1})}),
                         sample("aten.sub.Tensor", {x.transpose(0, 1), f32({3, 4, 5})}),
                         sample("aten.sum.dim_IntList", {x, ints({-1}), true})};
  EXPECT_EQ(operators_answered(plain).size(), plain.size());
}

TEST(Shapes, FastPathsCompareAcrossLayoutsAndWithNumbers) {
  const at::Tensor x = f32({4, 3, 5}), swapped = x.transpose(0, 1).contiguous().transpose(0, 1);
  const at::Tensor rows = i64({4, 1}, 3), classes = i64({5}, 3);
  const Samples samples = {sample("aten.eq.Tensor", {swapped, x}), sample("aten.lt.Tensor", {x, f32({5})}),
                           sample("aten.eq.Tensor", {rows, classes}), sample("aten.eq.Scalar", {classes, 2})};
  expect_shapes_match(samples);
  for (const auto& each : samples) EXPECT_EQ(operators_answered({each}).size(), 1U);
}

TEST(Shapes, FastPathsDeclineWhatTheyCannotSee) {
  const at::Tensor x = f32({4, 3, 5});
  const Samples unclear = {sample("aten.add.Tensor", {x, f64({4, 3, 5})}), sample("aten.mul.Tensor", {x, i64({5}, 3)}),
                           sample("aten.eq.Tensor", {x, f64({4, 3, 5})}), sample("aten.tanh", {i64({3}, 5)})};
  EXPECT_TRUE(operators_answered(unclear).empty());
}

TEST(Shapes, OperatorsThatMetaKernelsServeHaveNone) {
  EXPECT_EQ(find_shape_function(sample("aten.bmm", {f32({1, 2, 3}), f32({1, 3, 4})}).handle()), nullptr);
}

TEST(Shapes, WrongArgumentsAreRefusedInTheKernelsWords) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const auto refuse = [](const OpSample& wrong, const std::string& words) {
    c10::Stack stack;
    for (const auto& value : wrong.arguments) {
      stack.push_back(value.isTensor() ? c10::IValue(value.toTensor().to(at::kMeta)) : value);
    }
    try {
      find_shape_function(wrong.handle())(wrong.handle(), stack);
      ADD_FAILURE() << wrong.op << " accepted wrong arguments";
    } catch (const c10::Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  const std::vector<int64_t> one = {1, 1}, none = {0, 0};
  refuse(
      sample("aten.convolution", {f32({2, 3, 8, 8}), f32({4, 5, 3, 3}), c10::IValue(), one, none, one, false, none, 1}),
      "to have 5 channels, but got 3 channels");
  refuse(sample("aten.native_layer_norm", {f32({2, 3}), ints({4}), c10::IValue(), c10::IValue(), 1e-5}),
         "Given normalized_shape=[4]");
  refuse(sample("aten.embedding", {f32({3}), i64({2}, 2)}), "'weight' must be 2-D");
  refuse(sample("aten.dot", {f32({3}), f32({4})}), "inconsistent tensor size");
}

}  // namespace
}  // namespace diptych::test
