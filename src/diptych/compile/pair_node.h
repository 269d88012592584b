// The autograd node through which a compiled pair takes part in eager's graph.
#pragma once
#include <torch/csrc/autograd/node.h>

#include <memory>
#include <string>
#include <vector>

#include "diptych/compile/compiled_function.h"

namespace diptych {

/// Holds one call's residuals and runs the backward graph. Everything a backward needs travels in it, so it may run on
/// any thread.
class PairNode final : public torch::autograd::Node {
 public:
  explicit PairNode(std::shared_ptr<const CompiledFunction> function) : function_(std::move(function)) {}

  /// Keeps what the backward needs of a call. `slots` are the forward's output slots, mutations done.
  void save(c10::ArrayRef<at::Tensor> primals, c10::ArrayRef<at::Tensor> slots, std::vector<at::Tensor>&& residuals,
            std::vector<at::Tensor>&& gradient_primals, std::vector<at::Tensor>&& generator_states);

  std::string name() const override { return "DiptychBackward(" + function_->options().name + ")"; }
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
  torch::autograd::variable_list inlined(const torch::autograd::variable_list& tangents) const;
  torch::autograd::variable_list run_compiled(const BackwardVariant& variant,
                                              torch::autograd::variable_list&& tangents);
  torch::autograd::variable_list run_second_order(const BackwardVariant& variant,
                                                  const torch::autograd::variable_list& tangents);
  static void watch(std::vector<Watch>& watches, const at::Tensor& tensor, size_t index);
  /// `reads`: which of the tensors are read at all; null if every one is.
  static void check(const std::vector<Watch>& watches, const std::vector<at::Tensor>& needed,
                    const std::vector<bool>* reads = nullptr);

  std::shared_ptr<const CompiledFunction> function_;
  std::vector<at::Tensor> residuals_;
  std::vector<Watch> residual_watches_;
  std::vector<at::Tensor> gradient_primals_;
  std::vector<Watch> gradient_primal_watches_;
  std::vector<at::Tensor> generator_states_;
  bool will_release_ = false;
  bool released_ = false;
};

}  // namespace diptych
