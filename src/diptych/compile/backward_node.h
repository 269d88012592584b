// The autograd node through which a compiled pair takes part in eager's graph.
#pragma once
#include <torch/csrc/autograd/node.h>

#include <memory>
#include <string>
#include <vector>

#include "diptych/compile/check_backward.h"
#include "diptych/compile/compiled_function.h"
#include "diptych/compile/release_rules.h"

namespace diptych {

/// Holds one call's residuals and runs one stage of the backward. Everything a backward needs travels in it, so it may
/// run on any thread. See Note [Stages of a backward] and Note [Released parts].
class BackwardNode final : public torch::autograd::Node {
 public:
  BackwardNode(std::shared_ptr<const CompiledFunction> function, size_t stage)
      : function_(std::move(function)), stage_(stage) {}

  /// Keeps what the stage needs of a call; what it does not is undefined. `slots` are the forward's output slots,
  /// mutations done.
  void save(c10::ArrayRef<at::Tensor> primals, c10::ArrayRef<at::Tensor> slots, std::vector<at::Tensor>&& residuals,
            std::vector<at::Tensor>&& gradient_primals, std::vector<at::Tensor>&& generator_states);

  /// Has what the backward gives compared with the original function's gradients.
  void set_check(std::shared_ptr<detail::CheckedBackward> check) { check_ = std::move(check); }

  std::string name() const override { return "DiptychBackward(" + function_->options().name + ")"; }
  /// What the backward reads on the host, at the time of the call.
  void set_host_state(detail::HostState state) { host_state_ = std::move(state); }

  void release_variables() override;
  void will_release_variables() override { will_release_ = true; }
  /// In a captured backward the backward graph takes this node's place, unless it is to be differentiated again or was
  /// compiled by someone else.
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs& args) const override;
  torch::autograd::variable_list apply_with_saved(const torch::autograd::variable_list& tangents,
                                                  torch::dynamo::autograd::SwapSavedVariables& saved) override;

 private:
  /// A storage that a residual shares with a tensor in the caller's hands.
  struct Watch {
    c10::VariableVersion counter;
    uint32_t version = 0;
    size_t index = 0;  ///< of the tensor that needs it, among residuals or gradient primals
  };

  torch::autograd::variable_list apply(torch::autograd::variable_list&& tangents) override;
  /// The tangents of the whole function, of which those of other stages are undefined.
  torch::autograd::variable_list all_tangents(torch::autograd::variable_list&& tangents) const;
  void check_host_state() const;
  std::vector<bool> wanted_gradients() const;
  bool is_whole(const BackwardRun& run) const;
  bool has_saved() const;
  void drop_residuals();
  void release(const BackwardRun& run);
  torch::autograd::variable_list inlined(const torch::autograd::variable_list& tangents) const;
  /// `run` is released where it is given.
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
  /// `reads`: which of the tensors are read at all; null if every one is.
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
  std::shared_ptr<detail::CheckedBackward> check_;  ///< null but in a checked call
  bool will_release_ = false;
  bool has_released_ = false;  ///< what the engine is about to ask for has been done
  std::vector<BackwardRun> released_;
};

}  // namespace diptych
