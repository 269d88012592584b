// Random straight-line graphs against eager: views, joins, reductions, broadcasts, integers, several outputs.
#include <random>

#include "diptych/interpreter/program.h"
#include "interpreter/graph_builder.h"

namespace diptych {
namespace {

using test::GraphBuilder;
using test::same_bits;

// Grows one graph, choosing operators and operands at random among those whose shapes fit.
class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed) : random_(seed) {
    torch::manual_seed(seed);
    for (int i = 0; i < 3; ++i) values_.push_back(builder.input(torch::randn({4, 6})));
    values_.push_back(builder.input(torch::randn({6})));
    values_.push_back(builder.input(torch::randint(0, 5, {4, 6})));
    values_.push_back(builder.constant(torch::randn({4, 1})));
    const int nodes = 5 + pick(40);
    for (int i = 0; i < nodes; ++i) grow();
  }

  std::vector<Value> choose_outputs() {
    std::vector<Value> outputs;
    const int count = 1 + pick(4);
    for (int i = 0; i < count; ++i) outputs.push_back(any());
    outputs.push_back(values_.back());
    return outputs;
  }

  GraphBuilder builder;

 private:
  int pick(int count) { return static_cast<int>(random_() % static_cast<uint32_t>(count)); }
  Value any() { return values_[static_cast<size_t>(pick(static_cast<int>(values_.size())))]; }
  // Recent values are likelier, so that chains form and operands die.
  Value recent() {
    return pick(3) == 0 ? any()
                        : values_[values_.size() - 1 -
                                  static_cast<size_t>(pick(std::min<int>(4, static_cast<int>(values_.size()))))];
  }
  const at::Tensor& tensor(Value value) { return builder.example(value); }

  void grow() {
    switch (pick(7)) {
      case 0:
        return unary();
      case 1:
      case 2:
        return binary();
      case 3:
        return view();
      case 4:
        return reduce();
      case 5:
        return join();
      default:
        return numbers();
    }
  }
  void unary() {
    static const char* kOps[] = {"aten.sin", "aten.tanh",  "aten.relu", "aten.neg",
                                 "aten.abs", "aten.clone", "aten.sign"};
    const Value x = recent();
    const auto* op = kOps[pick(std::size(kOps))];
    if (tensor(x).scalar_type() == at::kBool) return;
    values_.push_back(builder.node(op, {x}));
  }
  void binary() {
    static const char* kOps[] = {"aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor", "aten.maximum",
                                 "aten.gt.Tensor"};
    const Value x = recent(), y = recent();
    if (tensor(x).scalar_type() == at::kBool || tensor(y).scalar_type() == at::kBool) return;
    if (!at::are_expandable(tensor(x).sizes(), tensor(y).sizes())) return;
    const Value result = builder.node(kOps[pick(std::size(kOps))], {x, y});
    values_.push_back(result);
    if (tensor(result).scalar_type() == at::kBool) values_.push_back(builder.node("aten.where.self", {result, x, y}));
  }
  void view() {
    const Value x = recent();
    const auto dims = tensor(x).dim();
    if (dims == 0) return;
    const c10::IValue dim(static_cast<int64_t>(pick(static_cast<int>(dims))));
    switch (pick(5)) {
      case 0:
        return values_.push_back(builder.node("aten.unsqueeze", {x, dim}));
      case 1:
        return values_.push_back(builder.node("aten.transpose.int", {x, dim, c10::IValue(0)}));
      case 2:
        return values_.push_back(builder.node("aten.slice.Tensor", {x, dim, c10::IValue(0), c10::IValue(3)}));
      case 3:
        return values_.push_back(builder.node("aten.select.int", {x, dim, c10::IValue(0)}));
      default:
        for (const Value part : builder.nodes("aten.split.Tensor", {x, c10::IValue(2), dim})) values_.push_back(part);
    }
  }
  void reduce() {
    const Value x = recent();
    if (tensor(x).dim() == 0 || tensor(x).scalar_type() == at::kBool) return;
    const std::vector<int64_t> dim{pick(static_cast<int>(tensor(x).dim()))};
    values_.push_back(builder.node("aten.sum.dim_IntList", {x, c10::IValue(dim), c10::IValue(pick(2) == 0)}));
  }
  void join() {
    const Value x = recent(), y = recent();
    if (tensor(x).sizes() != tensor(y).sizes() || tensor(x).dim() == 0) return;
    const auto* op = pick(2) == 0 ? "aten.cat" : "aten.stack";
    values_.push_back(builder.node(op, {ValueList{x, y, x}, c10::IValue(0)}));
  }
  void numbers() {
    const Value x = recent();
    if (tensor(x).scalar_type() == at::kBool) return;
    const WrappedNumber number{at::Scalar(pick(2) == 0 ? 0.5 : -1.25)};
    values_.push_back(builder.node(pick(2) == 0 ? "aten.mul.Tensor" : "aten.add.Tensor", {x, number}));
  }

  std::mt19937 random_;
  std::vector<Value> values_;
};

TEST(RandomGraphs, RunLikeEagerWithAndWithoutReuse) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    RandomGraph random(seed);
    const auto outputs = random.choose_outputs();
    const Graph graph = random.builder.finish(outputs);
    const Program reusing(graph), plain(graph, {.reuse_buffers = false});
    for (const Program* program : {&reusing, &plain}) {
      for (const bool keep : {false, true}) {
        std::vector<at::Tensor> inputs, kept, before;
        for (const Value input : graph.inputs()) inputs.push_back(random.builder.example(input).clone());
        if (keep) kept = inputs;
        for (const auto& tensor : kept) before.push_back(tensor.clone());
        const auto results = program->run(std::move(inputs));
        for (size_t i = 0; i < outputs.size(); ++i) {
          ASSERT_TRUE(same_bits(results[i], random.builder.example(outputs[i]))) << "seed " << seed << ", output " << i;
          ASSERT_EQ(results[i].strides(), random.builder.example(outputs[i]).strides()) << "seed " << seed;
        }
        for (size_t i = 0; i < kept.size(); ++i) ASSERT_TRUE(same_bits(kept[i], before[i])) << "seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace diptych
