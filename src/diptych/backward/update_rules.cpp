#include "diptych/backward/update_rules.h"

#include <ATen/ceil_div.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/scalar_tensor.h>
#include <fmt/format.h>

#include <algorithm>

#include "diptych/base/error.h"
#include "diptych/base/parallel.h"

namespace diptych::detail {
namespace {

using Options = std::vector<double>;

size_t num_sgd_states(const Options& options) { return options[kMomentum] != 0 ? 1 : 0; }

// On the first step the kernel makes the momentum the gradient, whatever is in the buffer.
void update_sgd(const UpdateBatch& batch, const Options& options) {
  const auto momenta = batch.states.empty() ? std::vector<at::Tensor>() : batch.states[0];
  at::_fused_sgd_(batch.parameters, batch.gradients, momenta, options[kSgdWeightDecay], options[kMomentum],
                  batch.learning_rate, options[kDampening], options[kNesterov] != 0, /*maximize=*/false,
                  batch.is_first);
}

size_t num_adam_states(const Options& options) { return options[kAmsgrad] != 0 ? 3 : 2; }

template <auto Kernel>
void update_adam(const UpdateBatch& batch, const Options& options) {
  if (batch.is_first) {
    for (const auto& states : batch.states) {
      for (const at::Tensor& state : states) state.zero_();
    }
  }
  const std::vector<at::Tensor> largest = batch.states.size() > 2 ? batch.states[2] : std::vector<at::Tensor>();
  // The kernel counts in float32, exactly up to 2^24; bias corrections are 1 long before.
  const std::vector<at::Tensor> steps(batch.parameters.size(),
                                      at::scalar_tensor(static_cast<double>(batch.step), at::kFloat));
  Kernel(batch.parameters, batch.gradients, batch.states[0], batch.states[1], largest, steps, batch.learning_rate,
         options[kBeta1], options[kBeta2], options[kWeightDecay], options[kEps], options[kAmsgrad] != 0,
         /*maximize=*/false, {}, {});
}

const std::vector<UpdateRule>& rules() {
  static const auto* const table = new std::vector<UpdateRule>{
      {"sgd", {"momentum", "dampening", "weight_decay", "nesterov"}, {"momentum_buffer"}, num_sgd_states, update_sgd},
      {"adam",
       {"beta1", "beta2", "eps", "weight_decay", "amsgrad"},
       {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
       num_adam_states,
       update_adam<at::_ops::_fused_adam_::call>},
      {"adamw",
       {"beta1", "beta2", "eps", "weight_decay", "amsgrad"},
       {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
       num_adam_states,
       update_adam<at::_ops::_fused_adamw_::call>},
  };
  return *table;
}

// Elements are dealt out in units of this many, which are whole cache lines.
constexpr int64_t kUnit = 64;

/// Returns elements `begin` to `end` of a dense tensor, in memory order.
at::Tensor piece(const at::Tensor& tensor, int64_t begin, int64_t end) {
  if (begin == 0 && end == tensor.numel()) return tensor;
  return tensor.as_strided({end - begin}, {1}, tensor.storage_offset() + begin);
}

/// Returns what of a batch is in units [begin, end) of all batches; the batch's own units begin with number `first`.
UpdateBatch part_of(const UpdateBatch& batch, int64_t first, int64_t begin, int64_t end) {
  UpdateBatch part{{},
                   {},
                   std::vector<std::vector<at::Tensor>>(batch.states.size()),
                   batch.step,
                   batch.is_first,
                   batch.learning_rate,
                   batch.options};
  for (size_t i = 0; i < batch.parameters.size() && first < end; ++i) {
    const int64_t size = batch.parameters[i].numel();
    const int64_t from = std::max<int64_t>(begin - first, 0) * kUnit, to = std::min((end - first) * kUnit, size);
    first += at::ceil_div(size, kUnit);
    if (from >= to) continue;
    part.parameters.push_back(piece(batch.parameters[i], from, to));
    part.gradients.push_back(piece(batch.gradients[i], from, to));
    for (size_t k = 0; k < batch.states.size(); ++k) part.states[k].push_back(piece(batch.states[k][i], from, to));
  }
  return part;
}

int64_t num_units(const UpdateBatch& batch) {
  int64_t units = 0;
  for (const at::Tensor& parameter : batch.parameters) units += at::ceil_div(parameter.numel(), kUnit);
  return units;
}

}  // namespace

void update_in_parallel(const UpdateRule& rule, const std::vector<UpdateBatch>& batches) {
  std::vector<int64_t> first{0};
  for (const UpdateBatch& batch : batches) first.push_back(first.back() + num_units(batch));
  in_parallel(first.back(), /*grain=*/1, [&](int64_t begin, int64_t end) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    for (size_t i = 0; i < batches.size(); ++i) {
      if (first[i] >= end || first[i + 1] <= begin) continue;
      const UpdateBatch part = part_of(batches[i], first[i], begin, end);
      if (!part.parameters.empty()) rule.update(part, *part.options);
    }
  });
}

const UpdateRule& find_update_rule(std::string_view name) {
  for (const UpdateRule& rule : rules()) {
    if (rule.name == name) return rule;
  }
  throw InternalError(fmt::format("there is no update rule '{}'", name));
}

}  // namespace diptych::detail
