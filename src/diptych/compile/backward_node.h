// The backward node: the autograd node through which a compiled function takes part in eager's graph.
#pragma once
#include <torch/csrc/autograd/node.h>

#include <memory>
#include <string>
#include <vector>

#include "diptych/compile/check_backward.h"
#include "diptych/compile/compiled_function.h"
#include "diptych/compile/release_rules.h"

namespace diptych::detail {

/// Holds one call's residuals and runs one stage of the backward. Everything a backward needs travels in it, so it may
/// run on any thread. See Note [Stages of a backward] and Note [Released parts].
class BackwardNode final : public torch::autograd::Node {
 public:
  BackwardNode(std::shared_ptr<const CompiledFunction> function, size_t stage)
      : function_(std::move(function)), stage_(stage) {}

  /// Saves what the stage needs from a call; tensors that it does not need are undefined. `slots` are the forward's
  /// output slots after the mutations.
  void save(c10::ArrayRef<at::Tensor> primals, c10::ArrayRef<at::Tensor> slots, std::vector<at::Tensor>&& residuals,
            std::vector<at::Tensor>&& gradient_primals, std::vector<at::Tensor>&& generator_states);

  /// Makes later backwards compare their gradients with those of the original function.
  void set_check(std::shared_ptr<detail::CheckedBackward> check) { check_ = std::move(check); }

  std::string name() const override { return "DiptychBackward(" + function_->options().name + ")"; }
  /// Sets the state of the host that the backward reads, as it was at the time of the call.
  void set_host_state(detail::HostState state) { host_state_ = std::move(state); }

  void release_variables() override;
  void will_release_variables() override { will_release_ = true; }
  /// In a captured backward, the backward graph takes this node's place. It stays an eager node if the backward is to
  /// be differentiated again or checked, if a part of it was released, or if another backend or compiler made its
  /// executables.
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs& args) const override;
  torch::autograd::variable_list apply_with_saved(const torch::autograd::variable_list& tangents,
                                                  torch::dynamo::autograd::SwapSavedVariables& saved) override;

 private:
  /// The version of a tensor in the caller's hands that shares its storage with a residual or a gradient primal.
  struct Watch {
    c10::VariableVersion counter;
    uint32_t version = 0;
    size_t index = 0;  ///< of the tensor that needs it, among residuals or gradient primals
  };

  torch::autograd::variable_list apply(torch::autograd::variable_list&& tangents) override;
  /// Returns the tangents of the whole function, where those of other stages are undefined.
  torch::autograd::variable_list all_tangents(torch::autograd::variable_list&& tangents) const;
  void check_host_state() const;
  std::vector<bool> wanted_gradients() const;
  bool is_whole(const BackwardRun& run) const;
  bool has_saved() const;
  void drop_residuals();
  void release(const BackwardRun& run);
  torch::autograd::variable_list inlined(const torch::autograd::variable_list& tangents) const;
  /// If `run` is not null, releases what no run after it may need.
  torch::autograd::variable_list run_compiled(const BackwardVariant& variant, torch::autograd::variable_list&& tangents,
                                              const BackwardRun* run);
  at::Tensor with_own_history(const at::Tensor& start, size_t index);
  std::vector<at::Tensor> take_residuals(const BackwardRun* run);
  void check_arity(const BackwardVariant& variant, size_t num_tangents) const;
  torch::autograd::variable_list for_edges(torch::autograd::variable_list&& gradients) const;
  torch::autograd::variable_list inlined_whole(const torch::autograd::variable_list& tangents) const;
  torch::autograd::variable_list apply_transformed(const BackwardVariant& variant,
                                                   const torch::autograd::variable_list& tangents);
  void check_kept(const BackwardVariant& variant) const;
  torch::autograd::variable_list run_second_order(const BackwardVariant& variant,
                                                  const torch::autograd::variable_list& tangents);
  torch::autograd::variable_list run_checked(const BackwardVariant& variant, torch::autograd::variable_list&& tangents,
                                             const BackwardRun* run);
  static void watch(std::vector<Watch>& watches, const at::Tensor& tensor, size_t index);
  /// `reads`: which of the tensors are read at all; null if all are.
  static void check(const std::vector<Watch>& watches, const std::vector<at::Tensor>& needed,
                    const std::vector<bool>* reads = nullptr);

  std::shared_ptr<const CompiledFunction> function_;
  size_t stage_;
  std::vector<at::Tensor> residuals_;
  std::vector<Watch> residual_watches_;
  std::vector<at::Tensor> gradient_primals_;
  std::vector<Watch> gradient_primal_watches_;
  std::vector<at::Tensor> generator_states_;
  detail::HostState host_state_;
  std::shared_ptr<detail::CheckedBackward> check_;  ///< null except in a checked call
  bool will_release_ = false;
  bool has_released_ = false;  ///< apply() has already done what release_variables() will ask for
  std::vector<BackwardRun> released_;
};

}  // namespace diptych::detail
