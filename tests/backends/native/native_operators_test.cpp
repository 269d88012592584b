// Every operator that kernels have, with its gradient, at dynamic sizes: one graph beside eager at many sizes.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <map>
#include <set>

#include "diptych/autodiff/joint_capture.h"
#include "diptych/graph/map_sizes.h"
#include "diptych/native/native_backend.h"
#include "diptych/passes/unify_sizes.h"
#include "samples/cases.h"
#include "testing/run_graph.h"
#include "testing/same_tensors.h"

namespace diptych::testing {
namespace {

using namespace detail;

// How a case is called.
struct Way {
  at::ScalarType dtype;
  bool has_gradient;
  bool operator==(const Way&) const = default;
};

// The samples that a case takes, each once; a case without any takes one that tells the sizes.
std::vector<OperandKind> samples_of(const OperatorCase& c) {
  std::vector<OperandKind> samples;
  const auto add = [&](OperandKind sample) {
    if (std::find(samples.begin(), samples.end(), sample) == samples.end()) samples.push_back(sample);
  };
  for (const Argument& argument : c.arguments) {
    if (const auto* sample = std::get_if<OperandKind>(&argument)) add(*sample);
    if (const auto* list = std::get_if<std::vector<OperandKind>>(&argument))
      std::for_each(list->begin(), list->end(), add);
  }
  if (samples.empty()) add(OperandKind::kBlock);
  return samples;
}

// Calls of cases at some sizes, as a function of their samples, each of which is a leaf of its own. They are called
// with multiples of these by what all of them read, and their results are doubled: thus many pointwise operators are
// one kernel, and a single operator, of which LibTorch has a kernel, becomes one.
class SizedCalls {
 public:
  SizedCalls(const std::vector<const OperatorCase*>& cases, const Way& way, const CaseSizes& sizes) : way_(way) {
    for (const OperatorCase* const c : cases) parts_.push_back({c, samples_of(*c), 0});
    for (Part& part : parts_) {
      part.begin = tensors_.size();
      for (const OperandKind sample : part.samples) tensors_.push_back(plain_sample(sample, way.dtype, sizes));
    }
    num_samples_ = tensors_.size();
    std::map<OperandKind, size_t> known;
    for (const Part& part : parts_) {
      for (size_t i = 0; i < part.samples.size(); ++i) {
        const OperandKind sample = part.samples[i];
        const at::Tensor plain = tensors_[part.begin + i];
        const bool is_number = plain.scalar_type() == way.dtype && !is_index(sample);
        if (is_number && known.emplace(sample, tensors_.size()).second) {
          tensors_.push_back(at::full_like(plain, way.dtype == at::kLong ? 2 : 0.5));
        }
        factors_.push_back(is_number ? std::optional(known.at(sample)) : std::nullopt);
      }
    }
  }

  Tensors leaves() const {
    Tensors leaves;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const bool has_gradient = way_.has_gradient && i < num_samples_ && tensors_[i].is_floating_point();
      leaves.push_back(tensors_[i].clone().requires_grad_(has_gradient));
    }
    return leaves;
  }

  Tensors operator()(const Tensors& given) const {
    Tensors results;
    for (const Part& part : parts_) {
      Tensors operands;
      for (size_t i = part.begin; i < part.begin + part.samples.size(); ++i) {
        operands.push_back(factors_[i] ? given[i] * given[*factors_[i]] : given[i]);
      }
      for (const c10::IValue& result : call(part, operands)) {
        if (result.isTensor() && result.toTensor().defined()) results.push_back(result.toTensor() * 2);
      }
    }
    return results;
  }

 private:
  struct Part {
    const OperatorCase* of;
    std::vector<OperandKind> samples;
    size_t begin;  // among the tensors
  };

  static bool is_index(OperandKind sample) {
    return sample == OperandKind::kPlaces || sample == OperandKind::kIndices || sample == OperandKind::kClasses;
  }

  static torch::jit::Stack call(const Part& part, const Tensors& operands) {
    const Op op = Op::find(part.of->op);
    const auto tensor_of = [&](Value value) { return operands[value.id]; };
    const auto value_of = [&](OperandKind sample) {
      return Value{
          static_cast<int32_t>(std::find(part.samples.begin(), part.samples.end(), sample) - part.samples.begin())};
    };
    torch::jit::Stack stack;
    for (const c10::Argument& formal : op.schema().arguments()) {
      if (stack.size() >= part.of->arguments.size()) {
        stack.push_back(formal.default_value().value_or(c10::IValue()));
        continue;
      }
      const Argument& argument = part.of->arguments[stack.size()];
      Operand operand;
      if (const auto* given = std::get_if<Operand>(&argument)) operand = *given;
      if (const auto* sample = std::get_if<OperandKind>(&argument)) operand = value_of(*sample);
      if (const auto* samples = std::get_if<std::vector<OperandKind>>(&argument)) {
        ValueList list;
        for (const OperandKind sample : *samples) list.push_back(value_of(sample));
        operand = list;
      }
      stack.push_back(to_ivalue(operand, formal.real_type(), tensor_of));
    }
    op.handle().callBoxed(stack);
    return stack;
  }

  Way way_;
  std::vector<Part> parts_;
  Tensors tensors_;  // samples, then factors
  size_t num_samples_ = 0;
  std::vector<std::optional<size_t>> factors_;  // by sample
};

// Forward and gradient of calls as one graph: inputs are the leaves and the tangents of results, outputs are the
// results and the gradients of the leaves. Errors: eager's, where it has no result.
Graph joint_graph(const SizedCalls& calls) {
  const auto flat = [&](const Tensors& given) {
    FlatResult result{calls(given), {}};
    for (size_t i = 0; i < result.tensors.size(); ++i) result.paths.push_back(std::to_string(i));
    return result;
  };
  const Tensors leaves = calls.leaves();
  std::vector<std::string> paths;
  for (size_t i = 0; i < leaves.size(); ++i) paths.push_back("x" + std::to_string(i));
  return JointCapture(flat, leaves, paths, {"joint", /*exact_outputs=*/true}).take_joint().graph;
}

Tensors tangents_of(const Graph& joint, size_t num_leaves) {
  Tensors tangents;
  for (size_t i = num_leaves; i < joint.inputs().size(); ++i) {
    const TensorMeta& meta = joint.meta(joint.inputs()[i]);
    const at::Tensor numbers = at::arange(meta.numel(), at::kDouble).mul(0.7).add(1).sin();
    tangents.push_back(numbers.reshape(meta.size_hints()).to(meta.dtype));
  }
  return tangents;
}

// What autograd makes of the calls.
Tensors eager_results(const SizedCalls& calls, const Tensors& tangents) {
  const Tensors leaves = calls.leaves();
  Tensors results = calls(leaves), differentiable, wanted, gradients;
  std::copy_if(results.begin(), results.end(), std::back_inserter(differentiable),
               [](const at::Tensor& result) { return result.requires_grad(); });
  std::copy_if(leaves.begin(), leaves.end(), std::back_inserter(wanted),
               [](const at::Tensor& leaf) { return leaf.requires_grad(); });
  if (!differentiable.empty()) {
    gradients = torch::autograd::grad(differentiable, wanted, tangents, std::nullopt, false, /*allow_unused=*/true);
  }
  size_t next = 0;
  for (const at::Tensor& leaf : leaves) {
    results.push_back(leaf.requires_grad() && !gradients.empty() ? gradients[next++] : at::Tensor());
  }
  return results;
}

// What a graph is called with, and what LibTorch's operators make of it.
struct GraphCall {
  Tensors tangents, results;
};
// None if they have no results, or results of other sizes than the graph says.
std::optional<GraphCall> call_graph(Graph graph, Tensors inputs) {
  const size_t num_outputs = graph.outputs().size();
  auto outputs = graph.outputs();
  auto slots = graph.output_slots();
  for (size_t i = 0; i < graph.num_values(); ++i) {
    outputs.push_back(Value{static_cast<int32_t>(i)});
    slots.push_back({SlotKind::kOutput, fmt::format("value{}", i)});
  }
  graph.set_outputs(outputs, slots);
  try {
    GraphCall call{tangents_of(graph, inputs.size()), {}};
    inputs.insert(inputs.end(), call.tangents.begin(), call.tangents.end());
    call.results = run_graph(graph, inputs);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i] && call.results[i].sizes() != graph.meta(outputs[i]).size_hints()) return std::nullopt;
    }
    call.results.resize(num_outputs);
    return call;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

using Cases = std::function<std::vector<OperatorCase>(const CaseSizes&)>;

const CaseSizes kTracedAt[] = {{5, 3, 7},   {3, 5, 11}, {10, 4, 5}, {7, 6, 13},  {16, 4, 9},  {11, 3, 6},
                               {13, 7, 17}, {9, 8, 15}, {6, 9, 8},  {4, 11, 10}, {12, 10, 14}};
const CaseSizes kCalledAt[] = {{33, 2, 65}, {3, 19, 5}, {2, 1, 1100}, {700, 1, 3}, {1, 1, 5},
                               {3, 2, 1},   {0, 2, 5},  {3, 2, 0},    {3, 0, 5}};
constexpr size_t kAll = std::size(kCalledAt), kNumEmpty = 3;  // the last ones

// Whether it holds float32 values.
bool is_rounded(const Graph& graph) {
  for (size_t i = 0; i < graph.num_values(); ++i) {
    if (graph.meta(Value{static_cast<int32_t>(i)}).dtype == at::kFloat) return true;
  }
  return false;
}

// The cases of a family at all these sizes.
class Family {
 public:
  // Up to `most` neighbours that are called alike, with the same samples, are one graph.
  Family(const Cases& cases, size_t num_calls, size_t most) : num_calls_(num_calls), most_(most) {
    for (const CaseSizes& sizes : kTracedAt) traced_.push_back(cases(sizes));
    for (const CaseSizes& sizes : kCalledAt) called_.push_back(cases(sizes));
  }

  // Returns the operators of graphs of which nothing became a kernel.
  std::set<std::string> compare() {
    const auto& cases = traced_[0];
    for (size_t end = 0; end < cases.size();) {
      begin_ = end;
      const auto way = way_of(begin_);
      EXPECT_TRUE(way) << "eager has no result of " << cases[begin_].op;
      for (++end; end < cases.size() && end - begin_ < most_; ++end) {
        if (samples_of(cases[end]) != samples_of(cases[begin_]) || way_of(end) != way) break;
      }
      end_ = end;
      way_ = way.value();
      check();
    }
    return without_kernel_;
  }

 private:
  std::vector<const OperatorCase*> chosen(const std::vector<OperatorCase>& cases) const {
    std::vector<const OperatorCase*> chosen;
    for (size_t i = begin_; i < end_; ++i) chosen.push_back(&cases[i]);
    return chosen;
  }

  // The first way for which eager has a result.
  std::optional<Way> way_of(size_t index) const {
    for (const Way& way : {Way{at::kDouble, true}, Way{at::kDouble, false}, Way{at::kLong, false}}) {
      try {
        const SizedCalls calls({&traced_[0][index]}, way, kTracedAt[0]);
        eager_results(calls, tangents_of(joint_graph(calls), calls.leaves().size()));
        return way;
      } catch (const std::exception&) {
      }
    }
    return std::nullopt;
  }

  void check() {
    std::string names;
    for (const OperatorCase* const c : chosen(traced_[0])) names += c->op + " ";
    SCOPED_TRACE(fmt::format("{}of {}, case {}", names, dtype_name(way_.dtype), begin_));
    std::vector<Graph> graphs;
    std::vector<SymbolValues> points;
    for (size_t i = 0; i < std::size(kTracedAt); ++i) {
      const CaseSizes& sizes = kTracedAt[i];
      graphs.push_back(joint_graph(SizedCalls(chosen(traced_[i]), way_, sizes)));
      points.push_back({sizes.a, sizes.half, sizes.c});
    }
    std::string why;
    graph_ = unify_sizes(graphs, points, 3, &why);
    ASSERT_TRUE(graph_) << why << graphs[0].code();
    const NativeBackend backend;
    const auto executable = backend.compile(backend.prepare(*graph_));
    if (native_kernels(*executable).empty()) without_kernel_.insert(traced_[0][begin_].op);
    size_t compared = 0;
    for (size_t i = 0; i < num_calls_; ++i) compared += check_at(i, *executable) ? 1 : 0;
    EXPECT_GE(compared, kAll - kNumEmpty) << "at other sizes the graph means nothing";
  }

  bool check_at(size_t point, const Executable& executable) {
    const CaseSizes& sizes = kCalledAt[point];
    SCOPED_TRACE(fmt::format("a={}, half={}, c={}", sizes.a, sizes.half, sizes.c));
    const std::map<std::string, int64_t> symbols = {{"s0", sizes.a}, {"s1", sizes.half}, {"s2", sizes.c}};
    const SizedCalls calls(chosen(called_[point]), way_, sizes);
    const Graph instance = instantiate(*graph_, symbols);
    Tensors inputs = calls.leaves();
    for (at::Tensor& leaf : inputs) leaf = leaf.detach();
    // Calls of sizes 0 and 1 have graphs of their own, as those at which eager does something else have; but where this
    // one means something, that is what it does.
    const auto alone = call_graph(instance, inputs);
    if (!alone) return false;
    const bool is_plain = std::min({sizes.a, sizes.half, sizes.c}) > 1;
    const bool is_eagers = is_plain && is_instance(*graph_, symbols, joint_graph(calls));
    const Tensors expected = is_eagers ? eager_results(calls, alone->tangents) : alone->results;
    inputs.insert(inputs.end(), alone->tangents.begin(), alone->tangents.end());
    const double tolerance = is_rounded(*graph_) ? 1e-5 : 1e-9;
    const Likeness near{.rtol = tolerance, .atol = tolerance, .equal_nan = true};
    EXPECT_TRUE(same_tensors(executable.run(std::move(inputs)), expected, near))
        << graph_->code() << fused_graph(executable).code();
    return true;
  }

  std::vector<std::vector<OperatorCase>> traced_, called_;  // by sizes
  size_t num_calls_, most_;
  size_t begin_ = 0, end_ = 0;  // of the cases at hand
  Way way_{};
  std::optional<Graph> graph_;
  std::set<std::string> without_kernel_;
};

// One thread: calls are small.
class NativeOperators : public ::testing::Test {
 protected:
  NativeOperators() { at::set_num_threads(1); }
  ~NativeOperators() override { at::set_num_threads(threads_); }

 private:
  int threads_ = at::get_num_threads();
};

using NameSet = std::set<std::string>;

TEST_F(NativeOperators, PointwiseOperatorsServeAllSizes) {
  const auto cases = [](const CaseSizes&) {
    // Numbers among the operands make no difference here.
    std::set<std::pair<std::string, std::vector<OperandKind>>> known;
    auto all = pointwise_cases();
    std::erase_if(all, [&](const OperatorCase& c) { return !known.emplace(c.op, samples_of(c)).second; });
    return all;
  };
  EXPECT_EQ(Family(cases, kAll, 8).compare(), NameSet{});
}
TEST_F(NativeOperators, ActivationsAndTheirGradientsServeAllSizes) {
  EXPECT_EQ(Family([](const CaseSizes&) { return activation_cases(); }, kAll, 8).compare(), NameSet{});
}
TEST_F(NativeOperators, ReductionsServeAllSizes) {
  const auto cases = [](const CaseSizes&) {
    auto all = reduction_cases();
    // Here its numbers are those of a block.
    std::erase_if(all, [](const OperatorCase& c) { return samples_of(c)[0] == OperandKind::kSpecial; });
    return all;
  };
  EXPECT_EQ(Family(cases, kAll, 1).compare(), NameSet{});
}
// Sizes that do not follow from a kernel's inputs are the interpreter's.
TEST_F(NativeOperators, WhatMakesOrMovesElementsServesAllSizes) {
  EXPECT_EQ(Family(moving_cases, kAll, 1).compare(),
            (NameSet{"aten.arange", "aten.arange.start", "aten.eye", "aten.eye.m", "aten.full", "aten.linspace",
                     "aten.ones", "aten.select_backward", "aten.zeros"}));
}
TEST_F(NativeOperators, WhatReadsOrAddsAtIndicesServesAllSizes) {
  EXPECT_EQ(Family(indexing_cases, kAll, 1).compare(), NameSet{});
}
// A composite of no elements is not taken apart.
TEST_F(NativeOperators, CompositesServeAllSizes) {
  EXPECT_EQ(Family(composite_cases, kAll - kNumEmpty, 1).compare(), NameSet{"aten.nll_loss_forward"});
}

}  // namespace
}  // namespace diptych::testing
