#include "diptych/hops/transforms/transformed_body.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/functorch/Interpreter.h>
#include <ATen/ops/_make_dual.h>
#include <ATen/ops/_unpack_dual.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <numeric>

#include "diptych/base/check.h"
#include "diptych/hops/call.h"
#include "diptych/hops/replay.h"
#include "diptych/ops/wrong_under_vmap.h"
#include "diptych/trace/outer_levels.h"
#include "diptych/trace/placeholder.h"

namespace diptych::detail {
namespace {

using Tensors = std::vector<at::Tensor>;
using Kind = at::functorch::TransformType;

void check_derivative_is_of_graph(const Body& body) {
  DIPTYCH_CHECK(
      !body.has_own_derivative(),
      "[{}] the body calls a torch::autograd::Function or registers a hook, or changes a tensor in place where "
      "autograd does not see it, so its tangents do not follow from its graph; use custom_vjp, or an out-of-place "
      "operator",
      body.graph()->name());
}

// Dimensions within an element keep their order in memory, since a view that was recorded is legal for that order.
TensorMeta batch_of(const TensorMeta& meta, int64_t size) {
  const bool keeps = is_dense(meta.size_hints(), meta.stride_hints());
  TensorMeta batch = keeps ? meta : contiguous(meta);
  batch.sizes.insert(batch.sizes.begin(), SizeExpr(size));
  batch.strides.insert(batch.strides.begin(), SizeExpr(meta.numel()));
  return batch;
}

// Calls `visit(first, count)` for each group.
template <class Visit>
void for_each_group(const Groups& groups, const Visit& visit) {
  size_t first = 0;
  for (const size_t count : groups) {
    visit(first, count);
    first += count;
  }
}

}  // namespace

Tensors run_in_trace(const Body& body, Tensors inputs) { return replay(body.program(), std::move(inputs)); }

std::shared_ptr<const Body> capture_pure(const std::function<Tensors(const Tensors&)>& function,
                                         const std::vector<TensorMeta>& metas, const std::string& name) {
  Tensors placeholders;
  std::vector<std::string> paths;
  for (TensorMeta meta : metas) {
    meta.requires_grad = false;
    placeholders.push_back(make_placeholder(meta));
    paths.push_back(fmt::format("input.{}", paths.size()));
  }
  const FlatFunction named = [&](const Tensors& stand_ins) {
    FlatResult result{function(stand_ins), {}};
    for (size_t i = 0; i < result.tensors.size(); ++i) result.paths.push_back(fmt::format("result.{}", i));
    return result;
  };
  const at::AutoGradMode grad_mode(true);
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  return std::make_shared<const Body>(named, placeholders, paths, name);
}

TransformedBody batch_body(const Body& body, const std::vector<bool>& inputs, const std::vector<bool>& results,
                           const Batch& batch) {
  DIPTYCH_CHECK(
      !body.has_own_derivative(),
      "[vmap] the body calls a torch::autograd::Function or registers a hook, or changes a tensor in place where "
      "autograd does not see it, which its graph does not show; use custom_vjp, or an out-of-place operator");
  std::vector<TensorMeta> metas;
  for (size_t i = 0; i < inputs.size(); ++i) {
    metas.push_back(inputs[i] ? batch_of(body.input(i), batch.size) : body.input(i));
  }
  const Program program(with_rules_for_batches(*body.graph()));
  TransformedBody made;
  made.results = results;
  const auto function = [&](const Tensors& stand_ins) {
    std::vector<Unwrapped> found;
    {
      const WithoutOuterLevels outer;
      const InnerLevel level(batch);
      Tensors given = stand_ins;
      for (size_t i = 0; i < given.size(); ++i) {
        if (inputs[i]) given[i] = wrap(given[i], level.level());
      }
      for (const at::Tensor& result : replay(program, std::move(given))) found.push_back(unwrap(result, level.level()));
    }
    Tensors tensors;
    for (size_t i = 0; i < found.size(); ++i) {
      made.results[i] = made.results[i] || found[i].is_wrapped;
      const at::Tensor& value = found[i].value;
      // A result owns its memory, where each element has a place of its own.
      tensors.push_back(found[i].is_wrapped ? value.movedim(*found[i].batch_dim, 0)
                        : made.results[i]   ? as_batch({value}, batch).contiguous()
                                            : value);
    }
    return tensors;
  };
  made.body = capture_pure(function, metas, body.graph()->name());
  return made;
}

TransformedBody dual_body(const Body& body, const Groups& input_groups, const std::vector<bool>& inputs,
                          const Groups& result_groups, const std::vector<bool>& results) {
  check_derivative_is_of_graph(body);
  std::vector<TensorMeta> metas;
  for_each_group(input_groups, [&](size_t first, size_t count) {
    for (size_t i = first; i < first + count; ++i) metas.push_back(body.input(i));
    for (size_t i = first; i < first + count; ++i) {
      if (inputs[i]) metas.push_back(body.input(i));
    }
  });
  TransformedBody made;
  made.results = results;
  const auto function = [&](const Tensors& stand_ins) {
    std::vector<Dual> found;
    {
      const WithoutOuterLevels outer;
      const InnerLevel level(Kind::Jvp);
      Tensors given;
      for (const Dual& dual : deinterleave(stand_ins, input_groups, inputs)) {
        const at::Tensor primal = wrap(dual.primal, level.level());
        given.push_back(dual.tangent.defined() ? at::_make_dual(primal, wrap(dual.tangent, level.level()), 0) : primal);
      }
      for (const at::Tensor& result : run_in_trace(body, std::move(given))) {
        const auto [primal, tangent] = at::_unpack_dual(result, 0);
        found.push_back({unwrap(primal, level.level()).value, unwrap(tangent, level.level()).value});
      }
    }
    for (size_t i = 0; i < found.size(); ++i) {
      made.results[i] = made.results[i] || found[i].tangent.defined();
      if (made.results[i] && !found[i].tangent.defined()) found[i].tangent = at::zeros_like(found[i].primal);
    }
    return interleave(found, result_groups);
  };
  made.body = capture_pure(function, metas, body.graph()->name());
  return made;
}

Tensors interleave(const std::vector<Dual>& duals, const Groups& groups) {
  Tensors tensors;
  for_each_group(groups, [&](size_t first, size_t count) {
    for (size_t i = first; i < first + count; ++i) tensors.push_back(duals[i].primal);
    for (size_t i = first; i < first + count; ++i) {
      if (duals[i].tangent.defined()) tensors.push_back(duals[i].tangent);
    }
  });
  return tensors;
}

std::vector<Dual> deinterleave(const Tensors& tensors, const Groups& groups, const std::vector<bool>& has_tangent) {
  std::vector<Dual> duals(has_tangent.size());
  size_t next = 0;
  for_each_group(groups, [&](size_t first, size_t count) {
    for (size_t i = first; i < first + count; ++i) duals[i].primal = tensors[next++];
    for (size_t i = first; i < first + count; ++i) {
      if (has_tangent[i]) duals[i].tangent = tensors[next++];
    }
  });
  return duals;
}

Groups with_tangents(const Groups& groups, const std::vector<bool>& has_tangent) {
  Groups found;
  for_each_group(groups, [&](size_t first, size_t count) {
    const auto begin = has_tangent.begin() + static_cast<int64_t>(first);
    found.push_back(count + static_cast<size_t>(std::count(begin, begin + static_cast<int64_t>(count), true)));
  });
  return found;
}

std::vector<bool> batched_flags(const std::vector<Batched>& operands) {
  std::vector<bool> flags;
  for (const Batched& operand : operands) flags.push_back(operand.is_batched);
  return flags;
}

std::vector<bool> tangent_flags(const std::vector<Dual>& operands) {
  std::vector<bool> flags;
  for (const Dual& operand : operands) flags.push_back(operand.tangent.defined());
  return flags;
}

std::vector<int64_t> batch_key(const std::vector<bool>& flags, const Batch& batch) {
  std::vector<int64_t> key{static_cast<int64_t>(Kind::Vmap), batch.size, static_cast<int64_t>(batch.randomness)};
  key.insert(key.end(), flags.begin(), flags.end());
  return key;
}

std::vector<int64_t> tangent_key(const std::vector<bool>& flags) {
  std::vector<int64_t> key{static_cast<int64_t>(Kind::Jvp)};
  key.insert(key.end(), flags.begin(), flags.end());
  return key;
}

at::Tensor as_batch(const Batched& operand, const Batch& batch) {
  if (operand.is_batched) return operand.value;
  auto sizes = operand.value.sizes().vec();
  sizes.insert(sizes.begin(), batch.size);
  return operand.value.unsqueeze(0).expand(sizes);
}

std::vector<Batched> call_on_batches(const HopPtr& hop, const std::vector<Batched>& operands, const Batch& batch) {
  Tensors given;
  for (const Batched& operand : operands) given.push_back(as_batch(operand, batch));
  std::vector<Batched> results;
  for (at::Tensor& result : call(hop, std::move(given))) results.push_back({std::move(result), true});
  return results;
}

}  // namespace diptych::detail
