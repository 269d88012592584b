#include "diptych/backward/register_hook.h"

#include <ATen/core/VariableHooksInterface.h>

#include <algorithm>

#include "diptych/base/check.h"
#include "diptych/graph/tensor_meta.h"

namespace diptych::detail {

at::TensorBase ComputingHook::operator()(const at::TensorBase& gradient) const {
  return gradient.defined() ? compute(at::Tensor(gradient), read_) : gradient;
}

at::Tensor ComputingHook::compute(const at::Tensor& gradient, const std::vector<at::Tensor>& read) const {
  const auto version = gradient.is_inference() ? 0 : gradient._version();
  at::Tensor made = compute_(gradient, read);
  DIPTYCH_CHECK(made.defined() && made.sizes() == gradient.sizes() && made.dtype() == gradient.dtype(),
                "[register_hook] the hook got a gradient of sizes {} and dtype {} and returned {}; return one of the "
                "same sizes and dtype",
                c10::str(gradient.sizes()), dtype_name(gradient.scalar_type()),
                made.defined() ? c10::str(made.sizes(), " and ", made.dtype()) : "none");
  DIPTYCH_CHECK(gradient.is_inference() || gradient._version() == version,
                "[register_hook] the hook writes to the gradient that it is given, of sizes {}; return a new one",
                c10::str(gradient.sizes()));
  return made;
}

bool ComputingHook::operator==(const ComputingHook& other) const {
  return compute_ == other.compute_ &&
         std::equal(read_.begin(), read_.end(), other.read_.begin(), other.read_.end(),
                    [](const at::Tensor& a, const at::Tensor& b) { return a.is_same(b); });
}

unsigned add_computing_hook(const at::Tensor& tensor, ComputingHook::Compute compute, std::vector<at::Tensor> read) {
  DIPTYCH_CHECK(tensor.defined() && tensor.requires_grad(),
                "[register_hook] got a tensor {}, expected one that requires grad",
                tensor.defined() ? "that requires none" : "that is undefined");
  for (const at::Tensor& one : read)
    DIPTYCH_CHECK(one.defined(), "[register_hook] got an undefined tensor for the hook to read; leave it out");
  return at::impl::GetVariableHooks()->_register_hook(tensor, ComputingHook(compute, std::move(read)));
}

}  // namespace diptych::detail
