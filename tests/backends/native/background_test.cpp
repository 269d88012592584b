// Graphs that are compiled while calls already run.
#include <torch/types.h>

#include <future>
#include <mutex>
#include <stdexcept>

#include "diptych/backend/background_compile.h"
#include "diptych/backend/interpreter_backend.h"
#include "diptych/backends/builtin_backends.h"
#include "diptych/base/switches.h"
#include "diptych/compile/aot.h"
#include "interpreter/graph_builder.h"

namespace diptych {

using namespace detail;
namespace {

using test::GraphBuilder;

Graph square() {
  GraphBuilder builder("square");
  const Value x = builder.input(torch::ones({3}));
  return builder.finish({builder.node("aten.mul.Tensor", {x, x})});
}

// Returns the input plus 100, which tells it from the interpreter.
class Marked final : public Executable {
 public:
  std::vector<at::Tensor> run(std::vector<at::Tensor>&& inputs) const override { return {inputs[0] + 100}; }
};

float first_of(const Executable& executable) { return executable.run({torch::full({3}, 2.0F)})[0][0].item<float>(); }

TEST(InBackground, RunsTheInterpreterUntilTheCodeIsReady) {
  std::promise<void> may_end;
  const auto compile = in_background(
      [wait = may_end.get_future().share()](const Graph&) {
        wait.wait();
        return std::make_shared<const Marked>();
      },
      "test");
  const auto executable = compile(square());
  EXPECT_TRUE(is_compiling(*executable));
  EXPECT_EQ(first_of(*executable), 4);
  EXPECT_TRUE(executable->parts().empty());
  may_end.set_value();
  wait_for_compilers();
  EXPECT_FALSE(is_compiling(*executable));
  EXPECT_EQ(first_of(*executable), 102);
  EXPECT_EQ(executable->parts().size(), 1U);
}

TEST(InBackground, StaysWithTheInterpreterWhereACompilerFails) {
  std::mutex mutex;
  std::string logged;
  set_log_sink([&](std::string_view line) {
    const std::lock_guard lock(mutex);
    logged += line;
  });
  set_log("graphs");
  {
    const auto compile = in_background(
        [](const Graph&) -> std::shared_ptr<const Executable> { throw std::runtime_error("no memory"); }, "test");
    const auto executable = compile(square());
    wait_for_compilers();
    EXPECT_FALSE(is_compiling(*executable));
    EXPECT_EQ(first_of(*executable), 4);
  }
  set_log("");
  set_log_sink({});
  EXPECT_NE(
      logged.find(
          "the interpreter runs graph 'square', which backend test could not compile in the background: no memory"),
      std::string::npos)
      << logged;
}

TEST(InBackground, AnExecutableThatIsDroppedWaitsForItsCompiler) {
  auto running = std::make_shared<std::atomic<int>>(0);
  const auto compile = in_background(
      [running](const Graph&) {
        ++*running;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        ++*running;
        return std::make_shared<const Marked>();
      },
      "test");
  { const auto executable = compile(square()); }
  EXPECT_EQ(*running, 2);
}

TEST(AsyncCompile, GivesEagersResultsAllAlong) {
  const auto function = [](const at::Tensor& x) { return torch::tanh(x * x).sum(); };
  const auto compiled = aot_function(function, {.backend = "native", .async_compile = true});
  const at::Tensor x = torch::randn({16, 16}).requires_grad_();
  const auto expect_right = [&] {
    const auto got = torch::autograd::grad({compiled(x)}, {x})[0];
    EXPECT_TRUE(torch::allclose(got, torch::autograd::grad({function(x)}, {x})[0], 1e-5, 1e-6));
  };
  expect_right();
  wait_for_compilers();
  expect_right();
  EXPECT_EQ(compiled.native_graphs().size(), 2U);
  EXPECT_EQ(compiled.stats().misses, 1U);
}

}  // namespace
}  // namespace diptych
