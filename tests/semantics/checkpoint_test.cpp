// Checkpoint regions inside captured functions: their policies, their nesting and the state that they replay.
#include <ATen/autocast_mode.h>

#include "diptych/autodiff/joint_capture.h"
#include "diptych/graph/identical.h"
#include "diptych/ops/tags.h"
#include "diptych/passes/storage_roots.h"
#include "testing/eager_check.h"

namespace diptych::testing {
namespace {

constexpr int64_t kRows = 6;
constexpr int64_t kWidth = 8;
constexpr int64_t kActivation = kRows * kWidth * 4;

template <class F>
auto checkpoint(const CheckpointPolicy& policy, const F& function) {
  return [=](const auto&... arguments) {
    const CheckpointRegion region(policy);
    return function(arguments...);
  };
}

at::Tensor waves(at::IntArrayRef sizes, double step) {
  return torch::arange(c10::multiply_integers(sizes)).mul(step).sin().reshape(sizes).to(torch::kFloat);
}

// x, then two square weights for each block.
Tensors block_leaves(int count) {
  Tensors leaves{waves({kRows, kWidth}, 0.7).requires_grad_()};
  for (int i = 0; i < 2 * count; ++i) leaves.push_back(waves({kWidth, kWidth}, 0.3 + i).mul(0.5).requires_grad_());
  return leaves;
}

at::Tensor block(const at::Tensor& x, const at::Tensor& w, const at::Tensor& v) {
  const at::Tensor h = name_residual(torch::mm(torch::layer_norm(x, {kWidth}), w), "hidden");
  return x + torch::mm(torch::gelu(h), v).tanh();
}

Function stack(int count, const CheckpointPolicy& policy) {
  return [=](const Tensors& t) -> Tensors {
    at::Tensor x = t[0];
    for (int i = 0; i < count; ++i) x = checkpoint(policy, block)(x, t[2 * i + 1], t[2 * i + 2]);
    return {x.sum()};
  };
}

std::vector<CheckpointPolicy> policies() {
  const CheckpointPolicy mine{"sums_only", [](const Graph& graph, const Node& node) {
                                if (has_tag(node.op, Tag::kReduction)) return Rematerialize::kSave;
                                const bool is_product = has_tag(node.op, Tag::kComputeHeavy);
                                return is_product ? Rematerialize::kAuto : Rematerialize::kRecompute;
                              }};
  return {save_nothing(), save_everything_but_pointwise(), save_matrix_products(),  save_names({"hidden"}),
          mine,           save_within_budget(0),           save_within_budget(0.4), save_within_budget(1)};
}

std::vector<Partitioner> partitioners() { return {default_partition(), min_cut(), memory_budget(0.5)}; }

Pair captured(const Function& function, const Tensors& leaves, const AotOptions& options = {}) {
  std::vector<std::string> paths;
  for (size_t i = 0; i < leaves.size(); ++i) paths.push_back("t" + std::to_string(i));
  const auto flat = [&](const std::vector<at::Tensor>& given) {
    FlatResult result{function(given), {}};
    for (size_t i = 0; i < result.tensors.size(); ++i) result.paths.push_back(std::to_string(i));
    return result;
  };
  return capture_flat(flat, leaves, paths, options);
}

int64_t saved_bytes(const Function& function, const Tensors& leaves, const Partitioner& partition) {
  return residual_bytes(captured(function, leaves, {.partition = partition}).split);
}

size_t count_recomputed(const Graph& backward, Tag tag) {
  size_t count = 0;
  for (const Node& node : backward.nodes()) {
    count += node.provenance.origin.str() == "recompute" && has_tag(node.op, tag) ? 1 : 0;
  }
  return count;
}

TEST(Checkpoint, EveryPolicyGivesEagersValuesAndGradients) {
  for (const auto& partition : partitioners()) {
    for (const auto& policy : policies()) {
      SCOPED_TRACE(partition.name + " with " + policy.name);
      CheckOptions options;
      options.aot.partition = partition;
      expect_as_eager([] { return block_leaves(3); }, stack(3, policy), options);
    }
  }
}

TEST(Checkpoint, AStackSavesTheInputOfEachBlockAlone) {
  for (const auto& partition : partitioners()) {
    SCOPED_TRACE(partition.name);
    for (const int count : {1, 2, 5}) {
      // The first block's input is the caller's.
      const Pair pair = captured(stack(count, save_nothing()), block_leaves(count), {.partition = partition});
      EXPECT_EQ(residual_bytes(pair.split), (count - 1) * kActivation) << pair.explain();
      // The last product of a block is needed for its tanh; the sum is not.
      EXPECT_EQ(count_recomputed(pair.backward, Tag::kComputeHeavy), 2 * static_cast<size_t>(count)) << pair.code();
    }
  }
}

TEST(Checkpoint, ProductsAreSavedAndNeverRepeated) {
  const Pair pair = captured(stack(3, save_matrix_products()), block_leaves(3));
  EXPECT_EQ(count_recomputed(pair.backward, Tag::kComputeHeavy), 0U);
  EXPECT_EQ(residual_bytes(pair.split), (2 + 3 * 2) * kActivation) << pair.explain();
}

TEST(Checkpoint, EverythingButPointwiseIsSaved) {
  const Pair pair = captured(stack(3, save_everything_but_pointwise()), block_leaves(3));
  for (const Node& node : pair.backward.nodes()) {
    if (node.provenance.origin.str() != "recompute") continue;
    EXPECT_TRUE(has_tag(node.op, Tag::kPointwise) || has_tag(node.op, Tag::kSharesStorage)) << node.op.name();
  }
  EXPECT_GT(count_recomputed(pair.backward, Tag::kPointwise), 0U);
}

TEST(Checkpoint, NamedResidualsAreSaved) {
  const Pair pair = captured(stack(3, save_names({"hidden"})), block_leaves(3));
  EXPECT_EQ(residual_bytes(pair.split), (2 + 3) * kActivation) << pair.explain();
  EXPECT_NE(pair.explain().find("aten.mm, named hidden"), std::string::npos) << pair.explain();
  // The first product of each block is there, the second is not.
  EXPECT_EQ(count_recomputed(pair.backward, Tag::kComputeHeavy), 3U);
}

TEST(Checkpoint, ANamedViewKeepsWhatItIsAViewOf) {
  const auto function = [](const Tensors& t) -> Tensors {
    const CheckpointRegion region(save_names({"q", "v"}));
    const auto parts = torch::mm(t[0], t[1]).chunk(2, 1);
    return {(name_residual(parts[0], "q").exp() * name_residual(parts[1], "v").sin()).sum()};
  };
  const auto leaves = block_leaves(1);
  const Pair pair = captured(function, leaves);
  EXPECT_EQ(residual_bytes(pair.split), kActivation) << pair.explain();
  EXPECT_EQ(count_recomputed(pair.backward, Tag::kComputeHeavy), 0U) << pair.code();
  expect_as_eager([] { return block_leaves(1); }, function);
}

TEST(Checkpoint, NamesAreNothingOutsideOfATrace) {
  const at::Tensor x = torch::ones({2});
  EXPECT_TRUE(name_residual(x, "x").is_same(x));
  const CheckpointRegion region(save_names({"no such"}));
  EXPECT_TRUE(at::equal(x + x, torch::full({2}, 2.0)));
}

TEST(Checkpoint, NestedRegionsSaveTheOutermostInputs) {
  const auto nested = [](const CheckpointPolicy& outer, const CheckpointPolicy& inner) -> Function {
    return [=](const Tensors& t) -> Tensors {
      at::Tensor x = t[0];
      for (size_t i = 1; i + 3 < t.size(); i += 4) {
        x = checkpoint(outer, [&](const at::Tensor& start) {
          return checkpoint(inner, block)(checkpoint(inner, block)(start, t[i], t[i + 1]), t[i + 2], t[i + 3]);
        })(x);
      }
      return {x.sum()};
    };
  };
  for (const auto& partition : partitioners()) {
    for (const auto& inner : policies()) {
      SCOPED_TRACE(partition.name + ", inside: " + inner.name);
      CheckOptions options;
      options.aot.partition = partition;
      expect_as_eager([] { return block_leaves(4); }, nested(save_nothing(), inner), options);
      EXPECT_EQ(saved_bytes(nested(save_nothing(), inner), block_leaves(4), partition), kActivation);
      expect_as_eager([] { return block_leaves(4); }, nested(save_matrix_products(), inner), options);
    }
  }
  // What follows the inner regions needs their first runs, each inner backward one more; the last block of each outer
  // region is followed by nothing that needs its output.
  const Pair deep = captured(nested(save_nothing(), save_nothing()), block_leaves(4));
  EXPECT_EQ(count_recomputed(deep.backward, Tag::kComputeHeavy), 2U * (2 + 2 + 2)) << deep.code();
  const Pair flat = captured(nested(save_nothing(), save_everything_but_pointwise()), block_leaves(4));
  EXPECT_LT(count_recomputed(flat.backward, Tag::kComputeHeavy), 2U * (2 + 2 + 2));
  const Pair outer_saves = captured(nested(save_matrix_products(), save_nothing()), block_leaves(4));
  EXPECT_EQ(count_recomputed(outer_saves.backward, Tag::kComputeHeavy), 0U);
}

// The most bytes that the values of a backward graph hold at once, each storage from its making to its last use.
int64_t peak_bytes(const Graph& graph) {
  const auto roots = detail::storage_roots(graph);
  std::vector<size_t> last_use(graph.num_values());
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const auto use = [&](Value value) { last_use[roots[value.id].id] = i; };
    for_each_operand_value(graph.nodes()[i], use);
    for (const Value output : graph.nodes()[i].outputs) {
      if (output) use(output);
    }
  }
  int64_t peak = 0;
  int64_t live = 0;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    for (const Value output : graph.nodes()[i].outputs) {
      if (output && roots[output.id] == output) live += graph.meta(output).nbytes();
    }
    peak = std::max(peak, live);
    for (size_t id = 0; id < last_use.size(); ++id) {
      const auto& info = graph.info(Value{static_cast<int32_t>(id)});
      const bool is_made = info.kind == ValueInfo::Kind::kNode && roots[id].id == static_cast<int32_t>(id);
      if (is_made && last_use[id] == i && static_cast<size_t>(info.node) <= i) live -= info.meta.nbytes();
    }
  }
  return peak;
}

TEST(Checkpoint, NestingNeedsLessMemoryAtOnce) {
  constexpr int kBlocks = 12;
  const auto in_one_region = [](const Function& inside) -> Function {
    return [=](const Tensors& t) { return checkpoint(save_nothing(), inside)(t); };
  };
  const CheckpointPolicy indifferent{"none", [](const Graph&, const Node&) { return Rematerialize::kAuto; }};
  const Pair flat = captured(in_one_region(stack(kBlocks, indifferent)), block_leaves(kBlocks));
  const Pair nested = captured(in_one_region(stack(kBlocks, save_nothing())), block_leaves(kBlocks));
  EXPECT_EQ(residual_bytes(flat.split), 0);
  EXPECT_EQ(residual_bytes(nested.split), 0);
  // A block keeps five activations; nested, the blocks' inputs and one block's are there at once.
  EXPECT_GT(peak_bytes(flat.backward), 5 * kBlocks * kActivation);
  EXPECT_LT(peak_bytes(nested.backward), (kBlocks + 6) * kActivation);
}

TEST(Checkpoint, SurvivesDecomposition) {
  for (const auto& policy : policies()) {
    SCOPED_TRACE(policy.name);
    CheckOptions options;
    options.aot.decompositions = {"all"};
    options.tolerance = 1e-5;
    expect_as_eager([] { return block_leaves(3); }, stack(3, policy), options);
  }
  const AotOptions all{.decompositions = {"all"}};
  const Pair nothing = captured(stack(3, save_nothing()), block_leaves(3), all);
  EXPECT_EQ(residual_bytes(nothing.split), 2 * kActivation) << nothing.explain();
  const Pair named = captured(stack(3, save_names({"hidden"})), block_leaves(3), all);
  EXPECT_EQ(residual_bytes(named.split), (2 + 3) * kActivation) << named.explain();
}

TEST(Checkpoint, ItsGraphsSurviveTextAndFiles) {
  const Pair pair = captured(stack(2, save_names({"hidden"})), block_leaves(2));
  EXPECT_NE(pair.forward.code().find("region checkpoint.0 save · named hidden"), std::string::npos) << pair.code();
  for (const Graph& graph : {pair.forward, pair.backward}) {
    EXPECT_TRUE(identical(parse(graph.code(), all_constants(graph)), graph));
    EXPECT_TRUE(identical(from_json(to_json(graph), all_constants(graph)), graph));
  }
}

TEST(Checkpoint, ViewsAndInPlaceOperatorsInside) {
  const auto function = [](const Tensors& t) -> Tensors {
    at::Tensor x = t[0].clone();
    for (int i = 0; i < 2; ++i) {
      const CheckpointRegion region;
      at::Tensor y = torch::mm(x, t[1]);
      y.select(0, 1).mul_(2).sin_();
      y.narrow(1, 0, 3).copy_(x.narrow(1, 1, 3).exp());
      x.add_(y.view({-1}).tanh_().view_as(x));
    }
    x.t().select(0, 0).mul_(x.select(1, 1));
    return {x.relu(), x.sin()};
  };
  for (const auto& partition : partitioners()) {
    SCOPED_TRACE(partition.name);
    CheckOptions options;
    options.aot.partition = partition;
    expect_as_eager([] { return block_leaves(1); }, function, options);
  }
}

TEST(Checkpoint, AnArgumentThatIsChangedAfterwards) {
  const auto function = [](const Tensors& t) -> Tensors {
    const at::Tensor y = checkpoint(save_nothing(), [&](const at::Tensor& x) { return (x * t[0]).sin().exp(); })(t[1]);
    t[1].add_(1);
    return {y};
  };
  expect_as_eager([] { return Tensors{waves({3, 4}, 0.3).requires_grad_(), waves({3, 4}, 0.9)}; }, function);
}

TEST(Checkpoint, NoGradDetachAndGradientsInside) {
  const auto function = [](const Tensors& t) -> Tensors {
    const auto inner = [&](const at::Tensor& x) {
      at::Tensor scale;
      {
        const at::NoGradGuard no_grad;
        scale = x.abs().max().exp();
      }
      const at::Tensor y = torch::mm(x, t[1]).tanh();
      const at::Tensor slope = torch::autograd::grad({y.sum()}, {x}, {}, true, true)[0];
      return y * scale + slope.sin() * y.detach();
    };
    return {checkpoint(save_nothing(), inner)(t[0]).sum()};
  };
  for (const auto& partition : partitioners()) {
    SCOPED_TRACE(partition.name);
    CheckOptions options;
    options.aot.partition = partition;
    expect_as_eager([] { return block_leaves(1); }, function, options);
  }
}

TEST(Checkpoint, BackwardsOfSomeOutputsOnly) {
  const auto f = aot_function([](const at::Tensor& x, const at::Tensor& w) {
    const CheckpointRegion region;
    const at::Tensor h = torch::mm(x, w).tanh();
    return std::make_tuple(h.sin(), torch::mm(h, w).exp());
  });
  const auto eager = [](const at::Tensor& x, const at::Tensor& w) {
    const at::Tensor h = torch::mm(x, w).tanh();
    return std::make_tuple(h.sin(), torch::mm(h, w).exp());
  };
  for (const int which : {0, 1, 0}) {
    const auto run = [&](const auto& function) {
      auto leaves = block_leaves(1);
      const auto [a, b] = function(leaves[0], leaves[1]);
      (which == 0 ? a : b).sum().backward();
      return Tensors{leaves[0].grad(), leaves[1].grad()};
    };
    const auto got = run(f);
    const auto wanted = run(eager);
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(at::equal(got[i], wanted[i])) << which;
  }
}

TEST(Checkpoint, AnExceptionInsideLeavesNothingBehind) {
  const auto throws = [](const at::Tensor& x) -> at::Tensor {
    const CheckpointRegion outer;
    const CheckpointRegion inner(save_matrix_products());
    throw std::runtime_error("mine");
  };
  EXPECT_THROW(capture(throws, torch::ones({2})), std::runtime_error);
  const Pair pair = capture([](const at::Tensor& x) { return x.sin(); }, torch::ones({2}).requires_grad_());
  EXPECT_EQ(pair.code().find("region"), std::string::npos) << pair.code();
  // Caught inside the function, it ends the region and nothing else.
  const Pair caught = capture(
      [&](const at::Tensor& x) {
        try {
          throws(x);
        } catch (const std::runtime_error&) {
        }
        return x.sin();
      },
      torch::ones({2}).requires_grad_());
  EXPECT_EQ(caught.code().find("region"), std::string::npos) << caught.code();
}

TEST(Checkpoint, DoubleBackward) {
  torch::manual_seed(0);
  const Tensors leaves{torch::randn({3, 4}, torch::kDouble).requires_grad_(),
                       torch::randn({4, 4}, torch::kDouble).mul(0.5).requires_grad_()};
  const auto function = [](const Tensors& t) -> Tensors {
    const auto inner = [&](const at::Tensor& x) { return torch::mm(x.sin(), t[1]).tanh(); };
    return {checkpoint(save_nothing(), inner)(checkpoint(save_nothing(), inner)(t[0]))};
  };
  for (const auto& partition : partitioners()) {
    SCOPED_TRACE(partition.name);
    expect_gradients_right(leaves, function, /*second_order=*/true, {.partition = partition});
  }
}

TEST(CheckpointState, DropoutInARegionUsesOneMask) {
  const auto function = [](const Tensors& t) -> Tensors {
    const auto inner = [&](const at::Tensor& x) { return torch::mm(torch::dropout(x.sin(), 0.5, true), t[1]).tanh(); };
    return {checkpoint(save_nothing(), inner)(checkpoint(save_nothing(), inner)(t[0])), torch::rand({2})};
  };
  for (const auto& partition : {default_partition(), min_cut(), memory_budget(0), memory_budget(0.5)}) {
    SCOPED_TRACE(partition.name);
    CheckOptions options;
    options.aot.partition = partition;
    expect_as_eager([] { return block_leaves(1); }, function, options);
    const Pair pair = captured(function, block_leaves(1), options.aot);
    for (const Node& node : pair.backward.nodes()) EXPECT_FALSE(draws_random(node));
    // Two masks and the second region's input.
    EXPECT_EQ(residual_bytes(pair.split), 3 * kActivation) << pair.explain();
  }
}

TEST(CheckpointState, SecondOrderOfARegionUsesTheSameMask) {
  const auto g = [](const at::Tensor& x) {
    const CheckpointRegion region;
    return (torch::dropout(x.pow(3), 0.5, true) * x).sum();
  };
  const auto second = [](const auto& function) {
    torch::manual_seed(11);
    const at::Tensor x = waves({3, 4}, 0.4).requires_grad_();
    const at::Tensor first = torch::autograd::grad({function(x)}, {x}, {}, true, true)[0];
    return torch::autograd::grad({first.sum()}, {x})[0];
  };
  EXPECT_TRUE(at::equal(second(aot_function(g)), second(g)));
}

TEST(CheckpointState, AutocastInsideARegion) {
  const auto function = [](const Tensors& t) -> Tensors {
    at::Tensor x = t[0];
    for (int i = 0; i < 2; ++i) {
      x = checkpoint(save_nothing(), [&](const at::Tensor& start) {
        at::autocast::set_autocast_enabled(c10::kCPU, true);
        at::Tensor y = torch::gelu(torch::mm(start, t[1 + i]));
        at::autocast::set_autocast_enabled(c10::kCPU, false);
        at::autocast::clear_cache();
        return torch::mm(y.to(torch::kFloat).tanh(), t[1 + i]) + start;
      })(x);
    }
    return {x.sum()};
  };
  for (const auto& partition : partitioners()) {
    SCOPED_TRACE(partition.name);
    CheckOptions options;
    options.aot.partition = partition;
    expect_as_eager([] { return block_leaves(1); }, function, options);
    EXPECT_EQ(saved_bytes(function, block_leaves(1), partition), kActivation);
  }
}

TEST(CheckpointState, BatchNormStatisticsUpdateOnce) {
  const auto leaves = [] {
    return Tensors{waves({kRows, kWidth}, 0.7).requires_grad_(), waves({kWidth}, 0.3).requires_grad_(),
                   waves({kWidth}, 0.5).requires_grad_(), torch::zeros({kWidth}), torch::ones({kWidth})};
  };
  const auto function = [](const Tensors& t) -> Tensors {
    const auto inner = [&](const at::Tensor& x) {
      return torch::batch_norm(x.sin(), t[1], t[2], t[3], t[4], /*training=*/true, 0.1, 1e-5, false).tanh() + x;
    };
    return {checkpoint(save_nothing(), inner)(checkpoint(save_nothing(), inner)(t[0])).sum()};
  };
  for (const auto& partition : partitioners()) {
    SCOPED_TRACE(partition.name);
    CheckOptions options;
    options.aot.partition = partition;
    expect_as_eager(leaves, function, options);
  }
}

TEST(MemoryBudgets, RegionBudgetsAreMonotone) {
  const auto eager = saved_bytes(stack(3, save_within_budget(1)), block_leaves(3), default_partition());
  int64_t previous = saved_bytes(stack(3, save_nothing()), block_leaves(3), default_partition());
  EXPECT_EQ(eager, saved_bytes(
                       [](const Tensors& t) -> Tensors {
                         at::Tensor x = t[0];
                         for (int i = 0; i < 3; ++i) x = block(x, t[2 * i + 1], t[2 * i + 2]);
                         return {x.sum()};
                       },
                       block_leaves(3), default_partition()));
  EXPECT_EQ(saved_bytes(stack(3, save_within_budget(0)), block_leaves(3), default_partition()), previous);
  bool is_between = false;
  for (const double fraction : {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0}) {
    const auto bytes = saved_bytes(stack(3, save_within_budget(fraction)), block_leaves(3), default_partition());
    EXPECT_GE(bytes, previous) << fraction;
    EXPECT_LE(bytes, eager) << fraction;
    is_between = is_between || (bytes > previous && bytes < eager);
    previous = bytes;
  }
  EXPECT_TRUE(is_between);
}

// A body is first asked for its forward alone, of which nothing is saved that a budget could be a part of.
TEST(MemoryBudgets, ABudgetIsOfTheFirstBackward) {
  const auto leaves = block_leaves(2);
  const auto function = stack(2, save_within_budget(0.5));
  const auto flat = [&](const std::vector<at::Tensor>& given) { return FlatResult{function(given), {"0"}}; };
  JointCapture capture(flat, leaves, {"x", "w0", "v0", "w1", "v1"}, {"joint", /*exact_outputs=*/true});
  capture.joint({false});
  const auto split = split_joint(capture.joint(), default_partition());
  EXPECT_EQ(residual_bytes(split), saved_bytes(function, leaves, default_partition()));
  EXPECT_GT(residual_bytes(split), saved_bytes(stack(2, save_nothing()), leaves, default_partition()));
}

}  // namespace
}  // namespace diptych::testing
