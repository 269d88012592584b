// What may not go into a captured function or come out of it.
#include <map>

#include "testing/refusal.h"

namespace diptych::testing {
namespace {

at::Tensor twice(const at::Tensor& x) { return x * 2; }

TEST(Arguments, RefusesAnUndefinedOne) {
  expect_capture_refused(
      [](const at::Tensor& a, const at::Tensor& b) { return a + b; },
      {"[capture] argument 'arg1' is an undefined tensor", "pass a defined one, or an absent optional"},
      torch::ones({2}), at::Tensor());
}

TEST(Arguments, NamesAnUndefinedLeafByItsPath) {
  const std::map<std::string, Tensors> params{{"w", {torch::ones({2}), at::Tensor()}}};
  const auto f = [](const std::map<std::string, Tensors>& p) { return p.at("w")[0] * 2; };
  expect_refusal([&] { (void)aot_function(f, {.argument_names = {"params"}})(params); },
                 {"argument 'params.w.1' is an undefined"});
}

TEST(Arguments, RefusesSparseTensors) {
  expect_capture_refused(twice,
                         {"[capture] 'arg0' is a tensor of layout Sparse", "expected a strided one", "to_dense()"},
                         torch::eye(3).to_sparse());
  expect_capture_refused(twice, {"'arg0' is a tensor of layout SparseCsr", "to_dense()"},
                         torch::eye(3).to_sparse_csr());
}

TEST(Arguments, RefusesQuantizedTensors) {
  expect_capture_refused(twice, {"[capture] 'arg0' is a quantized tensor (QInt8)", "dequantize() it first"},
                         torch::quantize_per_tensor(torch::ones({2}), 0.1, 0, torch::kQInt8));
}

TEST(Arguments, RefusesSparseAndQuantizedFreeVariables) {
  const auto sparse = torch::eye(2).to_sparse();
  expect_capture_refused([&](const at::Tensor& x) { return torch::mm(sparse, x); },
                         {"'free.0' is a tensor of layout Sparse"}, torch::ones({2, 2}));
  const auto quantized = torch::quantize_per_tensor(torch::ones({2}), 0.1, 0, torch::kQInt8);
  expect_capture_refused([&](const at::Tensor& x) { return x + quantized.dequantize(); },
                         {"'free.0' is a quantized tensor"}, torch::ones({2}));
}

TEST(Outputs, RefusesAnUndefinedOne) {
  expect_capture_refused([](const at::Tensor&) { return at::Tensor(); },
                         {"[capture] output 'out' is an undefined tensor; return a defined one"}, torch::ones({2}));
  expect_capture_refused(
      [](const at::Tensor& x) {
        return std::make_pair(x * 2, Tensors{x + 1, at::Tensor()});
      },
      {"[capture] output '1.1' is an undefined tensor"}, torch::ones({2}));
}

TEST(Outputs, RefusesAFunctionThatReturnsNoTensor) {
  expect_capture_refused([](const at::Tensor&) { return Tensors(); },
                         {"[capture] the function returned no tensor and changed none; return at least one"},
                         torch::ones({2}));
  expect_capture_refused([](const at::Tensor&) { return std::optional<at::Tensor>(); }, {"returned no tensor"},
                         torch::ones({2}));
}

TEST(Outputs, RefusesSparseAndQuantizedResults) {
  expect_capture_refused([](const at::Tensor& x) { return x.to_sparse(); },
                         {"[trace] aten::_to_sparse returns a sparse or quantized tensor", "call it outside"},
                         torch::eye(3));
  expect_capture_refused([](const at::Tensor& x) { return torch::quantize_per_tensor(x, 0.1, 0, torch::kQInt8); },
                         {"aten::quantize_per_tensor", "returns a sparse or quantized tensor"}, torch::eye(3));
}

// Calls with another structure are captured anew; the reason names the place.
TEST(Structure, NamesThePathThatDiffers) {
  const auto f =
      aot_function([](const Tensors& xs, double scale) { return xs[0] * scale; }, {.argument_names = {"xs", "scale"}});
  f(Tensors{torch::ones({2})}, 2.0);
  EXPECT_EQ(f.stats().last_miss, "");
  f(Tensors{torch::ones({2}), torch::ones({2})}, 2.0);
  EXPECT_NE(f.stats().last_miss.find("xs"), std::string::npos) << f.stats().last_miss;
  f(Tensors{torch::ones({2})}, 3.0);
  EXPECT_NE(f.stats().last_miss.find("scale"), std::string::npos) << f.stats().last_miss;
  EXPECT_NE(f.stats().last_miss.find('3'), std::string::npos) << f.stats().last_miss;
  f(Tensors{torch::ones({5})}, 2.0);
  EXPECT_NE(f.stats().last_miss.find("xs.0"), std::string::npos) << f.stats().last_miss;
  f(Tensors{torch::ones({2}, torch::kInt)}, 2.0);
  EXPECT_NE(f.stats().last_miss.find("xs.0"), std::string::npos) << f.stats().last_miss;
  EXPECT_EQ(f.stats().misses, 5U);
  EXPECT_EQ(f.stats().entries, 5U);
  f(Tensors{torch::ones({2})}, 2.0);
  EXPECT_EQ(f.stats().hits, 1U);
}

TEST(Structure, NamesAMapsKeyAndAnAbsentOptional) {
  using Named = std::map<std::string, at::Tensor>;
  const auto f = aot_function([](const Named& m, const std::optional<at::Tensor>& bias) {
    at::Tensor sum = m.begin()->second * 1;
    return bias ? sum + *bias : sum;
  });
  f(Named{{"w", torch::ones({2})}}, std::optional<at::Tensor>());
  f(Named{{"v", torch::ones({2})}}, std::optional<at::Tensor>());
  EXPECT_NE(f.stats().last_miss.find("arg0"), std::string::npos) << f.stats().last_miss;
  EXPECT_NE(f.stats().last_miss.find('v'), std::string::npos) << f.stats().last_miss;
  f.clear();
  f(Named{{"w", torch::ones({2})}}, std::optional<at::Tensor>());
  f(Named{{"w", torch::ones({2})}}, std::optional<at::Tensor>(torch::ones({2})));
  EXPECT_NE(f.stats().last_miss.find("arg1"), std::string::npos) << f.stats().last_miss;
}

class PairCalls : public ::testing::Test {
 protected:
  at::Tensor x = ones_leaf({2, 3});
  at::Tensor w = ones_leaf({3, 4});
  at::Tensor free = torch::ones({4});
  Pair pair = capture([this](const at::Tensor& a, const at::Tensor& b) { return (a.matmul(b) * free).tanh(); }, x, w);
};

TEST_F(PairCalls, RefusesAWrongNumberOfArguments) {
  expect_refusal([&] { (void)pair.forward_call({x}); },
                 {"[forward_call] got 1 tensors, expected the 2 flattened arguments, or 3 with the free variables"});
  expect_refusal([&] { (void)pair.forward_call({x, w, free, x}); }, {"[forward_call] got 4 tensors"});
  EXPECT_TRUE(at::equal(pair.forward_call({x, w}).outputs[0], pair.forward_call({x, w, free}).outputs[0]));
}

TEST_F(PairCalls, RefusesArgumentsThatDoNotFit) {
  expect_refusal(
      [&] {
        (void)pair.forward_call({x, at::Tensor()});
      },
      {"[forward_call] input 1 (arg1) is undefined, expected f32[3,4]"});
  expect_refusal(
      [&] {
        (void)pair.forward_call({x, torch::ones({3, 5})});
      },
      {"[forward_call] input 1 (arg1) is f32[3,5], expected f32[3,4]", "capture again"});
  expect_refusal(
      [&] {
        (void)pair.forward_call({x, torch::ones({3, 4}, torch::kDouble)});
      },
      {"is f64[3,4], expected f32[3,4]"});
  expect_refusal(
      [&] {
        (void)pair.forward_call({x, torch::eye(3, 4).to_sparse()});
      },
      {"[forward_call] input 1 (arg1) is of layout Sparse", "to_dense()"});
}

TEST_F(PairCalls, RefusesAWrongNumberOfResidualsOrTangents) {
  const auto residuals = pair.forward_call({x, w}).residuals;
  expect_refusal(
      [&] {
        (void)pair.backward_call({}, {torch::ones({2, 4})});
      },
      {"[backward_call] got 0 residuals, expected the " + std::to_string(residuals.size()) + " of forward_call"});
  expect_refusal([&] { (void)pair.backward_call(residuals, {}); },
                 {"[backward_call] got 0 tangents, expected one per differentiable output, 1"});
  expect_refusal(
      [&] {
        (void)pair.backward_call(residuals, {torch::ones({2, 4}), torch::ones({2, 4})});
      },
      {"got 2 tangents"});
}

TEST_F(PairCalls, RefusesTangentsThatDoNotFit) {
  const auto residuals = pair.forward_call({x, w}).residuals;
  expect_refusal([&] { (void)pair.backward_call(residuals, {at::Tensor()}); },
                 {"[backward_call] tangent 0 (out) is undefined; pass zeros where no gradient flows in"});
  expect_refusal(
      [&] {
        (void)pair.backward_call(residuals, {torch::ones({4, 2})});
      },
      {"[backward_call] tangent 0 (out) is f32[4,2], expected f32[2,4]"});
}

TEST_F(PairCalls, NamesTheNearestPathOfAnUnknownOne) {
  expect_refusal([&] { (void)pair.signature.index_of_input("arg2"); }, {"arg2", "arg1"});
  expect_refusal([&] { (void)pair.signature.gradient_of("arg3"); },
                 {"[signature] got 'arg3', expected the path of an input", "arg1"});
  expect_refusal([&] { (void)pair.signature.index_of_output("outt"); },
                 {"[signature] got 'outt', expected the path of an output", "out"});
  EXPECT_FALSE(pair.signature.has_gradient("free.0"));
}

TEST(Trees, RefusesAWrongNumberOfTensors) {
  const Tensors example{torch::ones({1}), torch::ones({1})};
  expect_refusal([&] { (void)unflatten(example, Tensors{torch::ones({1})}, "xs"); },
                 {"[unflatten] got 1 tensors", "'xs.1'"});
  expect_refusal([&] { (void)unflatten(example, Tensors(3, torch::ones({1}))); },
                 {"[unflatten] got 3 tensors, expected 2"});
}

}  // namespace
}  // namespace diptych::testing
