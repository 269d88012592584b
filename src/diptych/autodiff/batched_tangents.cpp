#include "diptych/autodiff/batched_tangents.h"

#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/functorch/TensorWrapper.h>
// After the functorch headers, which would take its functions for theirs.
#include <ATen/LegacyBatchedTensorImpl.h>
#include <ATen/ops/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <map>

#include "diptych/base/check.h"
#include "diptych/trace/transforms.h"

namespace diptych::detail {
namespace {

using torch::autograd::variable_list;

/// The vmap that a dimension belongs to. The older vmap and torch.func's count their levels separately.
struct BatchLevel {
  bool is_legacy = false;  // these are innermost
  int64_t level = 0;
  auto operator<=>(const BatchLevel&) const = default;
};

/// A tensor without its wrappers, and which of its dimensions are batches.
struct Unwrapped {
  at::Tensor value;
  std::map<BatchLevel, int64_t> dims;
};

// Returns the dimension of a tensor, whose batches are `dims`, that is number `logical` among those that are not
// batches.
int64_t physical_dim(const std::map<BatchLevel, int64_t>& dims, int64_t logical) {
  std::vector<int64_t> batches;
  for (const auto& [level, dim] : dims) batches.push_back(dim);
  std::sort(batches.begin(), batches.end());
  for (const int64_t dim : batches) logical += dim <= logical ? 1 : 0;
  return logical;
}

Unwrapped unwrap(const at::Tensor& tensor) {
  if (const auto* batched = at::functorch::maybeGetBatchedImpl(tensor)) {
    Unwrapped inner = unwrap(batched->value());
    inner.dims[{false, batched->level()}] = physical_dim(inner.dims, batched->bdim());
    return inner;
  }
  if (const auto* batched = at::maybeGetBatchedImpl(tensor)) {
    Unwrapped inner = unwrap(batched->value());
    const auto outer = inner.dims;
    for (const auto& dim : batched->bdims()) inner.dims[{true, dim.level()}] = physical_dim(outer, dim.dim());
    return inner;
  }
  return {tensor, {}};
}

// Wraps `stack`, which has the batches in front, outermost first.
at::Tensor wrap(at::Tensor stack, const std::vector<BatchLevel>& levels) {
  at::BatchDims legacy;
  for (const BatchLevel& level : levels) {
    if (level.is_legacy) {
      legacy.emplace_back(level.level, static_cast<int64_t>(legacy.size()));
    } else {
      // The dimensions that are wrapped no longer count.
      stack = at::functorch::makeBatched(std::move(stack), 0, level.level);
    }
  }
  return legacy.empty() ? stack : at::makeBatched(std::move(stack), std::move(legacy));
}

/// The loop over all levels.
class ByElement {
 public:
  ByElement(const variable_list& tangents, Backward backward) : backward_(backward) {
    for (const at::Tensor& tangent : tangents) {
      tangents_.push_back(tangent.defined() ? unwrap(tangent) : Unwrapped{});
      for (const auto& [level, dim] : tangents_.back().dims) sizes_[level] = tangents_.back().value.size(dim);
    }
    for (const auto& [level, size] : sizes_) levels_.push_back(level);
  }

  bool are_plain() const {
    return std::none_of(tangents_.begin(), tangents_.end(),
                        [](const Unwrapped& tangent) { return transform_of(tangent.value).has_value(); });
  }

  void check(std::string_view who) const {
    for (const Unwrapped& tangent : tangents_) {
      const auto why = transform_of(tangent.value);
      DIPTYCH_CHECK(!why,
                    "[{}] the backward of a captured call got a tangent that {}, which it has no rule for; make the "
                    "call itself under the transform, where its function runs in eager",
                    who, why.value_or(""));
    }
  }

  variable_list run() const {
    variable_list gradients = run_level(tangents_, 0);
    for (at::Tensor& gradient : gradients) {
      if (gradient.defined()) gradient = wrap(std::move(gradient), levels_);
    }
    return gradients;
  }

 private:
  variable_list run_level(const std::vector<Unwrapped>& tangents, size_t depth) const {
    if (depth == levels_.size()) {
      variable_list plain;
      for (const Unwrapped& tangent : tangents) plain.push_back(tangent.value);
      return backward_(plain);
    }
    const int64_t size = sizes_.at(levels_[depth]);
    std::vector<variable_list> rows;
    for (int64_t i = 0; i < std::max<int64_t>(size, 1); ++i) {
      rows.push_back(run_level(elements(tangents, levels_[depth], i), depth + 1));
    }
    return stacked_rows(rows, size);
  }

  static std::vector<Unwrapped> elements(const std::vector<Unwrapped>& tangents, BatchLevel level, int64_t index) {
    std::vector<Unwrapped> found;
    for (Unwrapped tangent : tangents) {
      const auto batch = tangent.dims.find(level);
      if (batch != tangent.dims.end()) {
        const int64_t removed = batch->second;
        tangent.value =
            tangent.value.size(removed) > 0 ? tangent.value.select(removed, index) : tangent.value.sum(removed);
        tangent.dims.erase(batch);
        for (auto& [other, dim] : tangent.dims) dim -= dim > removed ? 1 : 0;
      }
      found.push_back(std::move(tangent));
    }
    return found;
  }

  static variable_list stacked_rows(const std::vector<variable_list>& rows, int64_t size) {
    variable_list stacks(rows[0].size());
    for (size_t k = 0; k < stacks.size(); ++k) {
      std::vector<at::Tensor> column;
      for (const variable_list& row : rows) column.push_back(row[k]);
      if (column[0].defined()) stacks[k] = at::stack(column).slice(0, 0, size);
    }
    return stacks;
  }

  Backward backward_;
  std::vector<Unwrapped> tangents_;
  std::map<BatchLevel, int64_t> sizes_;
  std::vector<BatchLevel> levels_;
};

}  // namespace

namespace {

// Whether `holds` is true of a tensor, or of one that is wrapped in it.
template <class Predicate>
bool any_inside(const at::Tensor& tensor, const Predicate& holds) {
  if (!tensor.defined()) return false;
  if (holds(tensor)) return true;
  if (const auto* batched = at::maybeGetBatchedImpl(tensor)) return any_inside(batched->value(), holds);
  if (const auto* batched = at::functorch::maybeGetBatchedImpl(tensor)) return any_inside(batched->value(), holds);
  const auto* wrapper = at::functorch::maybeGetTensorWrapper(tensor);
  return wrapper != nullptr && any_inside(wrapper->value(), holds);
}

}  // namespace

bool requires_grad_inside(const at::Tensor& tensor) {
  return any_inside(tensor, [](const at::Tensor& one) { return one.requires_grad(); });
}

bool has_tangent_inside(const at::Tensor& tensor) { return any_inside(tensor, has_tangent); }

bool differs_within_a_batch(const at::Tensor& tensor) {
  if (tensor.key_set().has_any(c10::DispatchKeySet({c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::Batched})))
    return true;
  const auto* wrapper = at::functorch::maybeGetTensorWrapper(tensor);
  return wrapper != nullptr && differs_within_a_batch(wrapper->value());
}

bool is_transformed(const variable_list& tangents) {
  if (transform_of_levels()) return true;
  return std::any_of(tangents.begin(), tangents.end(),
                     [](const at::Tensor& tangent) { return transform_of(tangent).has_value(); });
}

bool are_legacy_batches(const variable_list& tangents) {
  return std::any_of(tangents.begin(), tangents.end(), [](const at::Tensor& tangent) {
    return tangent.defined() && tangent.key_set().has(c10::DispatchKey::Batched);
  });
}

bool are_batches(const variable_list& tangents) {
  const auto never = [](const variable_list&) -> variable_list { return {}; };
  return ByElement(tangents, never).are_plain();
}

variable_list backward_by_element(std::string_view who, const variable_list& tangents, Backward backward) {
  // The loop works on plain tensors, whatever transform is active.
  const c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKeySet(
      {c10::DispatchKey::FuncTorchDynamicLayerFrontMode, c10::DispatchKey::FuncTorchDynamicLayerBackMode,
       c10::DispatchKey::VmapMode, c10::DispatchKey::FuncTorchVmapMode}));
  const ByElement loop(tangents, backward);
  loop.check(who);
  return loop.run();
}

}  // namespace diptych::detail
