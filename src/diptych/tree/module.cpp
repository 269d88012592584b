#include "diptych/tree/module.h"

namespace diptych::detail {

// torch keeps these members private and offers only copies. The one place where the language lets private names be used
// from outside is the argument list of an explicit instantiation, which hands them to these friends.
const NamedTensors& private_buffers(const torch::nn::Module& module);
const NamedModules& private_children(const torch::nn::Module& module);

template <auto buffers, auto children>
struct PrivateMembers {
  friend const NamedTensors& private_buffers(const torch::nn::Module& module) { return module.*buffers; }
  friend const NamedModules& private_children(const torch::nn::Module& module) { return module.*children; }
};
template struct PrivateMembers<&torch::nn::Module::buffers_, &torch::nn::Module::children_>;

namespace {
/// Names the protected member, as a derived class may.
struct ProtectedMembers : torch::nn::Module {
  static constexpr auto parameters() { return &ProtectedMembers::parameters_; }
};
}  // namespace

const NamedTensors& own_parameters(const torch::nn::Module& module) { return module.*ProtectedMembers::parameters(); }
const NamedTensors& own_buffers(const torch::nn::Module& module) { return private_buffers(module); }
const NamedModules& own_children(const torch::nn::Module& module) { return private_children(module); }

int64_t count_defined(const NamedTensors& tensors) {
  int64_t count = 0;
  for (const auto& named : tensors) count += named.value().defined();
  return count;
}

}  // namespace diptych::detail
