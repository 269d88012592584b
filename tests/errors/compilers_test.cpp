// What Diptych says to compilers, backends and partitioners that do not keep their side of the contract.
#include "testing/refusal.h"

namespace diptych::testing {
namespace {

// Runs a graph rightly, then lets `spoil` change what it returns.
class Spoiled final : public Executable {
 public:
  using Spoil = std::function<void(Tensors&)>;
  Spoiled(const Graph& graph, Spoil spoil) : program_(graph), spoil_(std::move(spoil)) {}
  Tensors run(Tensors&& inputs) const override {
    Tensors outputs = program_.run(std::move(inputs));
    spoil_(outputs);
    return outputs;
  }

 private:
  Program program_;
  Spoil spoil_;
};

Compiler spoiled(const Spoiled::Spoil& spoil) {
  return [spoil](const Graph& graph) { return std::make_shared<Spoiled>(graph, spoil); };
}
Compiler returns_null() {
  return [](const Graph&) -> std::shared_ptr<const Executable> { return nullptr; };
}

at::Tensor f(const at::Tensor& x) { return (x * x).tanh(); }
void call(const AotOptions& options) { (void)aot_function(f, options)(ones_leaf({2, 3})); }
void differentiate(const AotOptions& options) { aot_function(f, options)(ones_leaf({2, 3})).sum().backward(); }
void infer(const AotOptions& options) { (void)aot_function(f, options)(torch::ones({2, 3})); }

void too_few(Tensors& outputs) { outputs.pop_back(); }
void wrong_shape(Tensors& outputs) { outputs[0] = outputs[0].flatten(); }
void wrong_dtype(Tensors& outputs) { outputs[0] = outputs[0].to(at::kDouble); }
void undefined(Tensors& outputs) { outputs[0] = at::Tensor(); }

TEST(Compilers, MustReturnAnExecutable) {
  expect_refusal([] { call({.forward_compiler = returns_null()}); },
                 {"[forward compiler] returned no executable for graph"});
  expect_refusal([] { differentiate({.backward_compiler = returns_null()}); },
                 {"[backward compiler] returned no executable"});
  expect_refusal([] { infer({.inference_compiler = returns_null()}); },
                 {"[inference compiler] returned no executable"});
}

TEST(Compilers, MustReturnTheRightNumberOfOutputs) {
  expect_refusal([] { call({.forward_compiler = spoiled(too_few)}); },
                 {"[backend forward compiler] returned", "outputs, expected",
                  "a compiler must return what the graph's metadata says"});
  expect_refusal([] { infer({.inference_compiler = spoiled(too_few)}); },
                 {"[backend inference compiler] returned 0 outputs, expected 1"});
  expect_refusal([] { differentiate({.backward_compiler = spoiled(too_few)}); },
                 {"[backend backward compiler] returned 0 outputs, expected 1"});
}

TEST(Compilers, MustReturnTheRightShapes) {
  expect_refusal([] { call({.forward_compiler = spoiled(wrong_shape)}); },
                 {"[backend forward compiler] output 0 (out) came back as f32[6], expected f32[2,3]"});
  expect_refusal([] { differentiate({.backward_compiler = spoiled(wrong_shape)}); },
                 {"[backend backward compiler] output 0 (arg0) came back as f32[6], expected f32[2,3]"});
}

TEST(Compilers, MustReturnTheRightDtypes) {
  expect_refusal([] { infer({.inference_compiler = spoiled(wrong_dtype)}); },
                 {"[backend inference compiler] output 0 (out) came back as f64[2,3], expected f32[2,3]"});
}

TEST(Compilers, MustReturnDefinedTensors) {
  expect_refusal([] { call({.forward_compiler = spoiled(undefined)}); },
                 {"output 0 (out) came back as undefined, expected f32[2,3]"});
}

TEST(Compilers, PassOnWhatTheyThrow) {
  const Compiler throws = [](const Graph&) -> std::shared_ptr<const Executable> {
    throw std::runtime_error("no code today");
  };
  expect_refusal<std::runtime_error>([&] { call({.forward_compiler = throws}); }, {"no code today"});
  const auto fails = spoiled([](Tensors&) { throw std::runtime_error("no run today"); });
  expect_refusal<std::runtime_error>([&] { call({.forward_compiler = fails}); }, {"no run today"});
}

TEST(Compilers, AreAskedAgainAfterAFailure) {
  int asked = 0;
  const Compiler second_time = [&](const Graph& graph) -> std::shared_ptr<const Executable> {
    if (++asked == 1) throw std::runtime_error("not yet");
    return std::make_shared<Spoiled>(graph, [](Tensors&) {});
  };
  const auto compiled = aot_function(f, {.inference_compiler = second_time});
  EXPECT_THROW((void)compiled(torch::ones({2})), std::runtime_error);
  EXPECT_EQ(compiled.stats().entries, 0U);
  EXPECT_TRUE(at::equal(compiled(torch::ones({2})), f(torch::ones({2}))));
  EXPECT_EQ(asked, 2);
}

TEST(Backends, RefusesAnUnknownName) {
  expect_refusal([] { call({.backend = "llvmm"}); }, {"[backend] got 'llvmm', expected one of: interpreter"});
  expect_refusal([] { (void)backend_by_name(""); }, {"[backend] got ''"});
}

TEST(Partitioners, RefusesAnUnknownName) {
  expect_refusal([] { (void)partitioner_by_name("mincut"); }, {"mincut", "min_cut", "default", "memory_budget"});
}

TEST(Partitioners, RefusesABudgetOutOfRange) {
  expect_refusal([] { (void)memory_budget(1.5); }, {"memory_budget", "1.5"});
  expect_refusal([] { (void)memory_budget(-0.1); }, {"memory_budget", "-0.1"});
  expect_refusal([] { (void)memory_budget(std::nan("")); }, {"memory_budget", "nan"});
  expect_refusal([] { (void)partitioner_by_name("memory_budget(2)"); }, {"memory_budget"});
  expect_refusal([] { (void)partitioner_by_name("memory_budget(half)"); }, {"memory_budget(half)"});
}

TEST(Partitioners, MayNotSaveWhatDependsOnATangent) {
  const Partitioner bad{"bad", [](const Joint& joint) { return std::vector{joint.graph.inputs().back()}; }};
  expect_refusal([&] { call({.partition = bad}); }, {"bad", "tangent"});
}

TEST(Decompositions, RefusesAnUnknownName) {
  expect_refusal([] { call({.decompositions = {"softmx"}}); }, {"softmx"});
}

}  // namespace
}  // namespace diptych::testing
