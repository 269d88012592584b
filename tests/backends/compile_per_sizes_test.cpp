#include "diptych/backend/compile_per_sizes.h"

#include <gtest/gtest.h>

#include "diptych/backend/interpreter_backend.h"
#include "diptych/graph/parse.h"

namespace diptych::detail {
namespace {

constexpr const char* kGraph = R"(graph doubled(%0 x : f32[s0,3]) where s0=4
  %1 : f32[s0,3] = aten.mul.Scalar(%0, 2)
  return (%1 y)
)";

// Says how many runs there were.
class Counted final : public Executable {
 public:
  explicit Counted(const Graph& graph) : executable_(InterpreterBackend().compile(graph)) {}
  std::vector<at::Tensor> run(std::vector<at::Tensor>&& inputs) const override {
    ++runs;
    return executable_->run(std::move(inputs));
  }
  mutable int runs = 0;

 private:
  std::shared_ptr<const Executable> executable_;
};

// Runs the graph for several numbers of rows, and returns those that it was compiled for.
class Rows {
 public:
  explicit Rows(SizesPolicy policy = {})
      : executable_(compile_per_sizes(
            graph_,
            [this](const Graph& sized) {
              compiled_.push_back(sized.meta(sized.inputs()[0]).size_hints()[0]);
              EXPECT_TRUE(sized.meta(sized.inputs()[0]).is_static());
              return InterpreterBackend().compile(sized);
            },
            std::move(policy))) {}

  const std::vector<int64_t>& run(const std::vector<int64_t>& rows) {
    for (const int64_t count : rows) {
      const auto x = torch::randn({count, 3});
      EXPECT_TRUE(at::equal(executable_->run({x}).at(0), 2 * x));
    }
    return compiled_;
  }

 private:
  Graph graph_ = parse(kGraph);
  std::vector<int64_t> compiled_;
  std::shared_ptr<const Executable> executable_;
};

using Sizes = std::vector<int64_t>;

TEST(CompilePerSizes, CompilesEachSetOnce) { EXPECT_EQ(Rows().run({4, 5, 4, 5, 6}), (Sizes{4, 5, 6})); }

TEST(CompilePerSizes, LeavesTheFirstRunOfASetToAnother) {
  const auto first = std::make_shared<Counted>(parse(kGraph));
  Rows rows({first, 0});
  EXPECT_EQ(rows.run({4, 5, 6}), Sizes{});
  EXPECT_EQ(first->runs, 3);
  EXPECT_EQ(rows.run({5, 4, 5, 7}), (Sizes{5, 4}));
  EXPECT_EQ(first->runs, 4);
}

TEST(CompilePerSizes, ForgetsTheSetThatWasUsedLongestAgo) {
  Rows at_once({nullptr, 2});
  EXPECT_EQ(at_once.run({4, 5, 4, 6, 4, 5}), (Sizes{4, 5, 6, 5}));
  Rows returning({std::make_shared<Counted>(parse(kGraph)), 2});
  EXPECT_EQ(returning.run({4, 4, 5, 6, 4}), Sizes{4});
  EXPECT_EQ(returning.run({4}), (Sizes{4, 4}));
}

TEST(CompilePerSizes, KeepsAllWithoutALimit) {
  Sizes rows;
  for (int64_t count = 2; count < 60; ++count) rows.push_back(count);
  Rows all;
  EXPECT_EQ(all.run(rows), rows);
  EXPECT_EQ(all.run(rows), rows);
}

}  // namespace
}  // namespace diptych::detail
