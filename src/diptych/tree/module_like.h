// A torch::nn module that shares another's parameters, buffers and children. This is a separate header because torch's
// is slow to compile.
#pragma once
#include <torch/nn/module.h>

#include <iosfwd>

namespace diptych::detail {

/// Registers what another module has registered, under the same names, and leaves to it what torch lets a class
/// override. The other has to live as long.
class ModuleLike : public torch::nn::Module {
 public:
  explicit ModuleLike(torch::nn::Module& original);
  void train(bool on = true) override;
  bool is_training() const noexcept override { return original_.is_training(); }
  void to(torch::Device device, torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Device device, bool non_blocking = false) override;
  void zero_grad(bool set_to_none = true) override;
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;
  void pretty_print(std::ostream& stream) const override;
  bool is_serializable() const override { return original_.is_serializable(); }

 private:
  torch::nn::Module& original_;
};

}  // namespace diptych::detail
