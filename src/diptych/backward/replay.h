// The replay of a run's nodes on stand-ins, which records them.
#pragma once
#include <torch/csrc/autograd/input_metadata.h>

#include <map>
#include <unordered_map>

#include "diptych/backward/backward_trace.h"
#include "diptych/base/error_words.h"
#include "diptych/trace/recorder.h"

namespace diptych::detail {

/// Collects the warnings of a replay instead of showing them to the user: only what is run should warn.
class KeptWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { words_.push_back(warning.msg()); }
  bool any() const { return !words_.empty(); }
  const std::string& first() const { return words_.front(); }
  size_t size() const { return words_.size(); }
  void forget_after(size_t size) { words_.resize(size); }

 private:
  std::vector<std::string> words_;
};

/// Replays the calls of one run. LibTorch passes it back as the "compiler" to the interface in backward_trace.cpp.
class Replay {
 public:
  Replay(const std::vector<RunCall>& calls, RunContents& contents, const std::vector<bool>& stays_eager,
         const std::vector<int64_t>& sizes, HookMode hook_mode)
      : calls_(calls),
        contents_(contents),
        stays_eager_(stays_eager),
        sizes_(sizes),
        hook_mode_(hook_mode),
        recorder_("backward"),
        found_(contents.key().num_results),
        accumulations_(calls.size()) {}

  BackwardTrace run();

  std::string bind(const std::string& name, torch::dynamo::autograd::functional_apply_t function, bool is_custom,
                   bool is_traceable);
  torch::autograd::variable_list call(const std::string& name, const torch::autograd::variable_list& inputs,
                                      const std::vector<c10::IValue>& arguments);
  /// Runs `body`; what it throws is kept until the node has been restored, and `otherwise` is returned.
  template <class Body, class Result>
  Result guarded(Body&& body, Result otherwise) {
    if (failure_) return otherwise;
    try {
      return body();
    } catch (const std::exception& error) {
      failure_ = words_of(error);
      return otherwise;
    }
  }
  size_t num_outputs() const { return calls_[current_].node->num_outputs(); }

 private:
  void add_inputs();
  void read_input_metadata();
  void evaluate(size_t index);
  void tell_ending(const RunCall& call);
  torch::autograd::variable_list apply(const torch::autograd::variable_list& inputs);
  void check_outputs(torch::autograd::variable_list& outputs);
  void pass_on(torch::autograd::variable_list outputs);
  std::vector<bool> wanted_outputs() const;
  torch::autograd::variable_list eager(EagerStage stage, const torch::autograd::variable_list& inputs,
                                       const std::vector<bool>& is_wanted);
  torch::autograd::variable_list run_hooks(EagerStage stage, const torch::autograd::variable_list& gradients,
                                           size_t num_results);
  std::shared_ptr<const HookGraph> graph_of_hooks(EagerStage stage, const torch::autograd::variable_list& gradients);
  at::Tensor read_by_hooks(const at::Tensor& tensor);
  torch::autograd::variable_list run_node_as_it_is(const torch::autograd::variable_list& inputs);
  torch::autograd::variable_list with_stand_ins(torch::dynamo::autograd::SwapSavedVariables& saved,
                                                const torch::autograd::variable_list& inputs);
  at::Tensor sum_of(const at::Tensor& a, const at::Tensor& b);
  TensorMeta meta_of_result(EagerStage stage, const torch::autograd::variable_list& inputs, size_t index) const;
  BackwardTrace begin_result();
  BackwardTrace finish();
  BackwardTrace finish_with(RunEnding& ending);

  const std::vector<RunCall>& calls_;
  RunContents& contents_;
  const std::vector<bool>& stays_eager_;
  const std::vector<int64_t>& sizes_;
  const HookMode hook_mode_;
  Recorder recorder_;
  /// What nodes expect of the gradients that come to them, with the sizes to trace for.
  std::map<std::pair<const torch::autograd::Node*, uint32_t>, torch::autograd::InputMetadata> expected_;
  torch::autograd::variable_list found_;
  size_t current_ = 0;
  std::optional<std::string> failure_;
  struct Custom {
    torch::dynamo::autograd::functional_apply_t apply;
    bool is_traceable = false;
  };
  Custom custom_;  ///< bound and not yet called
  std::unordered_map<const torch::autograd::Node*, torch::autograd::variable_list> waiting_;
  MaybeUndefinedTensors maybe_undefined_;
  KeptWarnings warnings_;
  torch::autograd::variable_list ending_inputs_;
  int64_t num_numbers_ = 0;
  std::vector<bool> accumulations_;  ///< by call
  bool runs_user_code_ = false;
  std::vector<HookUse> hooks_;
  std::vector<at::Tensor> read_, stand_ins_of_read_;  ///< of hooks
};

}  // namespace diptych::detail
