#include "diptych/backward/prepare_gradients.h"

#include <ATen/ops/add.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/stack.h>
#include <fmt/ranges.h>

#include "diptych/base/check.h"

namespace diptych::detail {

std::vector<at::Tensor> transform_gradients(GradientTransform& transform, const std::vector<at::Tensor>& gradients,
                                            const std::vector<at::Tensor>& parameters,
                                            const std::function<std::string(size_t)>& path_of) {
  auto changed = transform.finish(gradients);
  const std::string who = transform.key();
  DIPTYCH_CHECK(changed.size() == gradients.size(),
                "[step] the gradient transform '{}' returned {} gradients, expected {}", who, changed.size(),
                gradients.size());
  for (size_t i = 0; i < changed.size(); ++i) {
    if (changed[i].is_same(gradients[i])) continue;
    const at::Tensor& parameter = parameters[i];
    DIPTYCH_CHECK(
        !changed[i].defined() || (changed[i].sizes() == parameter.sizes() && changed[i].dtype() == parameter.dtype()),
        "[step] the gradient transform '{}' returned {} of sizes {} for {}, expected {} of sizes {}", who,
        c10::toString(changed[i].scalar_type()), changed[i].sizes(), path_of(i), c10::toString(parameter.scalar_type()),
        parameter.sizes());
  }
  return changed;
}

at::Tensor clip_gradients(std::vector<at::Tensor>& gradients, double max_norm, double norm_type) {
  std::vector<at::Tensor> norms;
  for (const at::Tensor& gradient : gradients) {
    if (!gradient.defined() || gradient.numel() == 0) continue;
    norms.push_back(at::linalg_vector_norm(gradient, norm_type));
  }
  if (norms.empty()) return {};
  const at::Tensor norm = norms.size() == 1 ? norms[0] : at::linalg_vector_norm(at::stack(norms), norm_type);
  const at::Tensor factor = at::clamp_max(at::mul(at::reciprocal(at::add(norm, 1e-6)), max_norm), 1.0);
  for (at::Tensor& gradient : gradients) {
    if (gradient.defined()) gradient = at::mul(gradient, factor);
  }
  return norm;
}

}  // namespace diptych::detail
