// A stack of blocks in checkpoint regions, and what its captured pair saves and computes again.
#pragma once
#include "diptych/ops/tags.h"
#include "testing/eager_check.h"

namespace diptych::testing {

using namespace detail;

inline constexpr int64_t kRows = 6;
inline constexpr int64_t kWidth = 8;
inline constexpr int64_t kActivation = kRows * kWidth * 4;

template <class F>
auto checkpoint(const CheckpointPolicy& policy, const F& function) {
  return [=](const auto&... arguments) {
    const CheckpointRegion region(policy);
    return function(arguments...);
  };
}

inline at::Tensor waves(at::IntArrayRef sizes, double step) {
  return torch::arange(c10::multiply_integers(sizes)).mul(step).sin().reshape(sizes).to(torch::kFloat);
}

// x, then two square weights for each block.
inline Tensors block_leaves(int count) {
  Tensors leaves{waves({kRows, kWidth}, 0.7).requires_grad_()};
  for (int i = 0; i < 2 * count; ++i) leaves.push_back(waves({kWidth, kWidth}, 0.3 + i).mul(0.5).requires_grad_());
  return leaves;
}

inline at::Tensor block(const at::Tensor& x, const at::Tensor& w, const at::Tensor& v) {
  const at::Tensor h = name_residual(torch::mm(torch::layer_norm(x, {kWidth}), w), "hidden");
  return x + torch::mm(torch::gelu(h), v).tanh();
}

inline Function stack(int count, const CheckpointPolicy& policy) {
  return [=](const Tensors& t) -> Tensors {
    at::Tensor x = t[0];
    for (int i = 0; i < count; ++i) x = checkpoint(policy, block)(x, t[2 * i + 1], t[2 * i + 2]);
    return {x.sum()};
  };
}

inline std::vector<CheckpointPolicy> policies() {
  const CheckpointPolicy mine{"sums_only", [](const Graph& graph, const Node& node) {
                                if (has_tag(node.op, Tag::kReduction)) return Rematerialize::kSave;
                                const bool is_product = has_tag(node.op, Tag::kComputeHeavy);
                                return is_product ? Rematerialize::kAuto : Rematerialize::kRecompute;
                              }};
  return {save_nothing(), save_everything_but_pointwise(), save_matrix_products(),  save_names({"hidden"}),
          mine,           save_within_budget(0),           save_within_budget(0.4), save_within_budget(1)};
}

inline std::vector<Partitioner> partitioners() { return {default_partition(), min_cut(), memory_budget(0.5)}; }

inline Pair captured(const Function& function, const Tensors& leaves, const AotOptions& options = {}) {
  std::vector<std::string> paths;
  for (size_t i = 0; i < leaves.size(); ++i) paths.push_back("t" + std::to_string(i));
  const auto flat = [&](const std::vector<at::Tensor>& given) {
    FlatResult result{function(given), {}};
    for (size_t i = 0; i < result.tensors.size(); ++i) result.paths.push_back(std::to_string(i));
    return result;
  };
  return capture_flat(flat, leaves, paths, options);
}

inline int64_t saved_bytes(const Function& function, const Tensors& leaves, const Partitioner& partition) {
  return residual_bytes(captured(function, leaves, {.partition = partition}).split);
}

inline size_t count_recomputed(const Graph& backward, Tag tag) {
  size_t count = 0;
  for (const Node& node : backward.nodes()) {
    count += node.provenance.origin.str() == "recompute" && has_tag(node.op, tag) ? 1 : 0;
  }
  return count;
}

}  // namespace diptych::testing
