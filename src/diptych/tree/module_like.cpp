#include "diptych/tree/module_like.h"

#include "diptych/tree/module.h"

namespace diptych::detail {

ModuleLike::ModuleLike(torch::nn::Module& original) : torch::nn::Module(original.name()), original_(original) {
  for (const auto& child : own_children(original)) register_module(child.key(), child.value());
  for (const auto& tensor : own_parameters(original)) parameters_.insert(tensor.key(), tensor.value());
  for (const auto& tensor : own_buffers(original)) register_buffer(tensor.key(), tensor.value());
}

void ModuleLike::train(bool on) { original_.train(on); }
void ModuleLike::to(torch::Device device, torch::Dtype dtype, bool non_blocking) {
  original_.to(device, dtype, non_blocking);
}
void ModuleLike::to(torch::Dtype dtype, bool non_blocking) { original_.to(dtype, non_blocking); }
void ModuleLike::to(torch::Device device, bool non_blocking) { original_.to(device, non_blocking); }
void ModuleLike::zero_grad(bool set_to_none) { original_.zero_grad(set_to_none); }
void ModuleLike::save(torch::serialize::OutputArchive& archive) const { original_.save(archive); }
void ModuleLike::load(torch::serialize::InputArchive& archive) { original_.load(archive); }
void ModuleLike::pretty_print(std::ostream& stream) const { original_.pretty_print(stream); }

}  // namespace diptych::detail
