// Random groups with dynamic sizes: one kernel computes at each size what eager computes.
#include <fmt/format.h>
#include <functional>
#include <map>
#include <random>

#include "backends/native/lowering_check.h"
#include "diptych/native/codegen/compiled_kernel.h"
#include "diptych/native/lower/group_space.h"
#include "diptych/native/lower/size_table.h"
#include "diptych/passes/unify_sizes.h"
#include "testing/rotation.h"

namespace diptych {
namespace {

using namespace detail;
using testing::GraphWriter;
using testing::ints;
using testing::Tensors;

using Point = std::map<std::string, int64_t>;

std::vector<int64_t> at(const Sizes& sizes, const Point& point) {
  std::vector<int64_t> values;
  for (const SizeExpr& size : sizes) values.push_back(size.evaluate(point));
  return values;
}

// A group as a program that is written at any sizes: its values by number, with their sizes as expressions.
class DynamicGroup {
 public:
  explicit DynamicGroup(uint32_t seed) : random_(seed) {
    const SizeExpr s0 = SizeExpr::symbol("s0", 5), s1 = SizeExpr::symbol("s1", 7);
    const std::vector<Sizes> shapes = {{s0, 6}, {2, s0, 4}, {s0, s1}, {s0, s1, 8}, {1, s0}, {6, s0}, {s1}};
    const Sizes sizes = shapes[below(static_cast<int>(shapes.size()))];
    for (int i = 0; i < 2; ++i) add_input(sizes);
    add_input({sizes.back()});
  }

  void grow(int nodes) {
    for (int i = 0; i < nodes; ++i) {
      const auto sizes_before = sizes_.size();
      const auto steps_before = steps_.size();
      add_node();
      if (fits()) continue;
      ++refused;
      sizes_.resize(sizes_before);
      steps_.resize(steps_before);
    }
  }

  // The graph for all sizes.
  std::optional<Graph> graph() {
    std::vector<Graph> graphs;
    std::vector<SymbolValues> points;
    for (const auto& [a, b] : std::vector<std::pair<int64_t, int64_t>>{
             {5, 7}, {3, 11}, {10, 5}, {7, 13}, {16, 9}, {11, 3}, {13, 17}, {9, 16}}) {
      points.push_back({a, b});
      graphs.push_back(written({{"s0", a}, {"s1", b}}).graph());
    }
    return unify_sizes(graphs, points, 2);
  }

  void check() {
    choose_outputs();
    const auto whole = graph();
    if (!whole || outputs_.empty()) return;
    std::string why;
    std::vector<SizeExpr> symbols;
    const auto kernel = lower_group(*whole, &why, &symbols);
    if (!kernel) {
      EXPECT_EQ(why, "an output with gaps or several elements at one place") << whole->code();
      return;
    }
    ++compiled;
    EXPECT_FALSE(find_problem(*kernel)) << print(*kernel);
    const bool has_code = !codegen_problem(*kernel);
    for (const Point& point : std::vector<Point>{{{"s0", 5}, {"s1", 7}},
                                                 {{"s0", 2}, {"s1", 2}},
                                                 {{"s0", 3}, {"s1", 3}},
                                                 {{"s0", 40}, {"s1", 21}},
                                                 {{"s0", 33}, {"s1", 64}}}) {
      EXPECT_NO_THROW(check_at(*whole, *kernel, symbols, point, has_code))
          << whole->code() << print(*kernel) << fmt::format("at s0={}, s1={}", point.at("s0"), point.at("s1"));
      if (::testing::Test::HasFailure()) return;
    }
  }

  size_t num_nodes() const { return steps_.size() - kInputs; }
  int refused = 0, compiled = 0;

 private:
  using Step = std::function<void(GraphWriter&, std::vector<Value>&, const Point&)>;
  static constexpr size_t kInputs = 3;

  int below(int count) { return static_cast<int>(random_() % static_cast<uint32_t>(count)); }

  void add_input(const Sizes& sizes) {
    const double shift = below(100) * 0.1;
    steps_.emplace_back([=](GraphWriter& w, std::vector<Value>& values, const Point& point) {
      values.push_back(w.input(testing::values(at(sizes, point), shift)));
    });
    sizes_.push_back(sizes);
  }
  void add(const Sizes& sizes,
           const std::function<Value(GraphWriter&, const std::vector<Value>&, const Point&)>& call) {
    steps_.emplace_back([=](GraphWriter& w, std::vector<Value>& values, const Point& point) {
      values.push_back(call(w, values, point));
    });
    sizes_.push_back(sizes);
  }

  GraphWriter written(const Point& point) const {
    GraphWriter writer;
    std::vector<Value> values;
    for (const Step& step : steps_) step(writer, values, point);
    std::vector<Value> outputs;
    for (const size_t i : outputs_) outputs.push_back(values[i]);
    writer.finish(outputs);
    return writer;
  }

  // The last values, as far as a kernel may write them: at sizes of 1 there are more that it might.
  void choose_outputs() {
    outputs_.clear();
    GraphWriter writer;
    std::vector<Value> values;
    for (const Step& step : steps_) step(writer, values, {{"s0", 5}, {"s1", 7}});
    for (size_t i = values.size(); i-- > kInputs && outputs_.size() < 4;) {
      if (writer.tensor(values[i]).is_non_overlapping_and_dense()) outputs_.push_back(i);
    }
  }

  bool fits() {
    const auto whole = graph();
    if (!whole) return false;
    GroupSpace space(*whole);
    for (size_t node = 0; node < whole->nodes().size(); ++node) {
      if (!space.add(node)) return false;
    }
    return true;
  }

  void check_at(const Graph& graph, const Kernel& kernel, const std::vector<SizeExpr>& expressions, const Point& point,
                bool has_code) const {
    SCOPED_TRACE(fmt::format("s0={}, s1={}\n{}{}", point.at("s0"), point.at("s1"), graph.code(), print(kernel)));
    const GraphWriter writer = written(point);
    const Graph& sized = writer.graph();
    const Tensors expected = writer.tensors(sized.outputs());
    const std::vector<int64_t> symbols = at(expressions, point);
    // Sums of thousands of products are rounded in another order.
    const testing::Likeness how{.rtol = 1e-4, .of_largest = 3e-5, .equal_nan = true, .strides = true};
    const auto evaluated =
        testing::run_lowered_by([&](const auto& read, const auto& write) { evaluate(kernel, read, write, symbols); },
                                kernel, sized, writer.inputs(), false);
    EXPECT_TRUE(testing::same_tensors(evaluated, expected, how));
    if (!has_code) return;
    const auto run = [&](const std::vector<KernelMemory>& read, const std::vector<KernelMemory>& write) {
      std::vector<void*> from, to;
      for (const KernelMemory& memory : read) from.push_back(memory.data);
      for (const KernelMemory& memory : write) to.push_back(memory.data);
      compile_kernel(kernel)->run(from.data(), to.data(), symbols);
    };
    const auto run_code = testing::run_lowered_by(run, kernel, sized, writer.inputs(), false);
    EXPECT_TRUE(testing::same_tensors(run_code, expected, how));
  }

  void add_node() {
    const size_t x = random_() % sizes_.size();
    const int kind = below(12);
    if (kind < 2) return add_unary(x);
    if (kind < 5) return add_pair(x);
    if (kind < 9) return add_view(x);
    if (kind < 10) return add_read(x % kInputs);
    add_reduction(x);
  }

  void add_unary(size_t x) {
    const std::string op = std::vector<std::string>{"aten.sin", "aten.neg", "aten.tanh"}[below(3)];
    add(sizes_[x], [=](GraphWriter& w, const auto& values, const Point&) { return w.call(op, {values[x]}); });
  }

  static std::optional<Sizes> broadcast(const Sizes& a, const Sizes& b) {
    Sizes joined(std::max(a.size(), b.size()), 1);
    for (size_t i = 1; i <= joined.size(); ++i) {
      const SizeExpr x = i <= a.size() ? a[a.size() - i] : SizeExpr(1),
                     y = i <= b.size() ? b[b.size() - i] : SizeExpr(1);
      if (!(x == y) && !is_one(x) && !is_one(y)) return std::nullopt;
      joined[joined.size() - i] = is_one(x) ? y : x;
    }
    return joined;
  }
  void add_pair(size_t x) {
    size_t y = random_() % sizes_.size();
    for (int i = 0; i < 10 && !broadcast(sizes_[x], sizes_[y]); ++i) y = random_() % sizes_.size();
    if (!broadcast(sizes_[x], sizes_[y])) y = x;
    const std::string op = below(2) == 0 ? "aten.add.Tensor" : "aten.mul.Tensor";
    add(*broadcast(sizes_[x], sizes_[y]), [=](GraphWriter& w, const auto& values, const Point&) {
      return w.call(op, {values[x], values[y]});
    });
  }

  void add_view(size_t x) {
    Sizes sizes = sizes_[x];
    const auto rank = static_cast<int>(sizes.size());
    const int kind = below(4);
    if (kind == 0 && rank > 1) {
      std::vector<int64_t> order(rank);
      for (int i = 0; i < rank; ++i) order[i] = i;
      std::shuffle(order.begin(), order.end(), random_);
      for (int i = 0; i < rank; ++i) sizes[i] = sizes_[x][order[i]];
      return add(sizes, [=](GraphWriter& w, const auto& values, const Point&) {
        return w.call("aten.permute", {values[x], ints(order)});
      });
    }
    if (kind == 1) {
      for (SizeExpr& size : sizes) size = is_one(size) ? SizeExpr(3) : size;
      return add(sizes, [=](GraphWriter& w, const auto& values, const Point& point) {
        return w.call("aten.expand", {values[x], ints(at(sizes, point))});
      });
    }
    if (kind == 2 || rank == 0) {
      sizes.insert(sizes.begin() + below(rank + 1), 1);
    } else if (const int dim = below(rank); dim + 1 < rank) {
      sizes[dim] = sizes[dim] * sizes[dim + 1];
      sizes.erase(sizes.begin() + dim + 1);
    } else if (sizes[dim].is_static() && sizes[dim].hint() % 2 == 0) {
      sizes[dim] = sizes[dim].divided_by(2);
      sizes.insert(sizes.begin() + dim + below(2), 2);
    }
    add(sizes, [=](GraphWriter& w, const auto& values, const Point& point) {
      return w.call("aten.reshape", {values[x], ints(at(sizes, point))});
    });
  }

  // At other places of what the group reads.
  void add_read(size_t x) {
    Sizes sizes = sizes_[x];
    const int64_t dim = below(static_cast<int>(sizes.size()));
    const int kind = below(3);
    if (kind == 0) {
      return add(sizes, [=](GraphWriter& w, const auto& values, const Point&) {
        return w.call("aten.flip", {values[x], ints({dim})});
      });
    }
    if (kind == 1) {
      sizes[dim] = sizes[dim] * SizeExpr(2);
      return add(sizes, [=](GraphWriter& w, const auto& values, const Point&) {
        return w.call("aten.cat", {ValueList{values[x], values[x]}, c10::IValue(dim)});
      });
    }
    if (is_one(sizes[dim])) return add_unary(x);
    sizes.erase(sizes.begin() + dim);
    const int64_t position = below(2) - 1;
    add(sizes, [=](GraphWriter& w, const auto& values, const Point&) {
      return w.call("aten.select.int", {values[x], c10::IValue(dim), c10::IValue(position)});
    });
  }

  void add_reduction(size_t x) {
    Sizes sizes = sizes_[x];
    if (sizes.empty()) return add_unary(x);
    const int64_t dim = below(static_cast<int>(sizes.size()));
    const bool keeps = below(3) != 0;
    if (keeps) sizes[dim] = 1;
    if (!keeps) sizes.erase(sizes.begin() + dim);
    const std::string op = std::vector<std::string>{"aten.sum.dim_IntList", "aten.mean.dim", "aten.amax"}[below(3)];
    add(sizes, [=](GraphWriter& w, const auto& values, const Point&) {
      return w.call(op, {values[x], ints({dim}), c10::IValue(keeps)});
    });
  }

  std::mt19937 random_;
  std::vector<Step> steps_;
  std::vector<Sizes> sizes_;
  std::vector<size_t> outputs_;
};

TEST(LowerDynamic, OneKernelComputesWhatEagerComputesAtAllSizes) {
  size_t nodes = 0, refused = 0, compiled = 0;
  const auto seeds = testing::rotating_seeds(0, 150);
  for (const uint32_t seed : seeds) {
    SCOPED_TRACE(seed);
    DynamicGroup group(seed);
    group.grow(9);
    group.check();
    nodes += group.num_nodes();
    refused += group.refused;
    compiled += group.compiled;
    if (HasFailure()) return;
  }
  EXPECT_GT(nodes, refused);
  EXPECT_GT(compiled, testing::share_of(seeds.size(), 75, 150));
}

TEST(LowerDynamic, QuotientsAreFoundWhereTheyHoldAtAllSizes) {
  const SizeExpr s0 = SizeExpr::symbol("s0", 6), s1 = SizeExpr::symbol("s1", 12);
  EXPECT_EQ(quotient(s0 * s1, s1, s0), s0);
  EXPECT_EQ(quotient(s0 * s1, s0, 1), s1);
  EXPECT_EQ(quotient(s0 * SizeExpr(12), 4, 1), s0 * SizeExpr(3));
  EXPECT_EQ(quotient(s0 * SizeExpr(12), s0, 1), SizeExpr(12));
  EXPECT_EQ(quotient(24, 8, 1), SizeExpr(3));
  // By the hints alone.
  EXPECT_FALSE(quotient(s1, s0, 2));
  EXPECT_FALSE(quotient(s1, 4, 3));
  EXPECT_FALSE(quotient(12, s0, 2));
  EXPECT_FALSE(quotient(s0 + SizeExpr(6), 2, 6));
}

TEST(LowerDynamic, MultiplesShareASymbol) {
  const SizeExpr s0 = SizeExpr::symbol("s0", 6), s1 = SizeExpr::symbol("s1", 12);
  SizeTable table;
  EXPECT_EQ(table.term(7), SizeTerm{7});
  EXPECT_EQ(table.term(s0 * SizeExpr(64)), (SizeTerm{64, 0}));
  EXPECT_EQ(table.term(s0), (SizeTerm{1, 0}));
  EXPECT_EQ(table.term(SizeExpr(0) - s0), (SizeTerm{-1, 0}));
  EXPECT_EQ(table.term(s0 * s1), (SizeTerm{1, 1}));
  EXPECT_EQ(table.size({64, 0}), s0 * SizeExpr(64));
  EXPECT_EQ(table.symbols(), (std::vector<SizeExpr>{s0, s0 * s1}));
}

}  // namespace
}  // namespace diptych
