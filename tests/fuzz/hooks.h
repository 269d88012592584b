// The hooks of a random program's caller, and what they see.
#pragma once
#include <map>
#include <memory>

#include "fuzz/observe.h"

namespace diptych::fuzz {

/// Registers the hooks of one run, which must outlive this.
class Hooks {
 public:
  /// `leaves`: those of the call and captured tensors. `eager`: what the run is compared with, if it is ours.
  Hooks(const Program& program, const Tensors& leaves, Run& run, const Run* eager)
      : program_(program), leaves_(leaves), run_(run), eager_(eager), seen_(program.hooks.size()) {
    run.is_hooked.resize(program.hooks.size());
  }

  /// Registers those whose time it is.
  void add(Hook::When when);
  /// Adds what they saw, and gradients that tensors retain, to the run's gradients.
  void look();

 private:
  /// What a hook has been called with: hooks on captured tensors outlive the run.
  using Log = std::shared_ptr<Tensors>;

  at::Tensor target(const Hook& hook) const;
  void add(const Hook& hook, const at::Tensor& tensor, const Log& log);

  const Program& program_;
  const Tensors& leaves_;
  Run& run_;
  const Run* eager_;
  std::vector<Log> seen_;
};

}  // namespace diptych::fuzz
