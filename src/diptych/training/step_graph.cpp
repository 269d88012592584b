#include "diptych/training/step_graph.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "diptych/backward/prepare_gradients.h"
#include "diptych/backward/update_formulas.h"
#include "diptych/base/check.h"
#include "diptych/graph/rewrite.h"
#include "diptych/hops/graph_edit.h"

namespace diptych::detail {
namespace {

// Appends the nodes of a part of the step, and returns its outputs.
std::vector<Value> append(Graph& graph, const Graph& part, const std::vector<Value>& inputs) {
  Rewriter rewriter(part, std::move(graph));
  for (size_t i = 0; i < inputs.size(); ++i) rewriter.map(part.inputs()[i], inputs[i]);
  for (const Node& node : part.nodes()) rewriter.copy_node(node);
  std::vector<Value> outputs;
  for (const Value output : part.outputs()) outputs.push_back(rewriter[output]);
  graph = std::move(rewriter.graph());
  return outputs;
}

at::Tensor stand_in(const TensorMeta& meta) {
  return at::empty_strided(meta.size_hints(), meta.stride_hints(), at::dtype(meta.dtype));
}

class StepGraphBuilder {
 public:
  StepGraphBuilder(const FlatFunction& function, const std::vector<at::Tensor>& arguments,
                   const std::vector<std::string>& paths, const OptimizerState& optimizer,
                   const xla::DeviceStepOptions& options)
      : optimizer_(optimizer), options_(options), pair_(capture_pair(function, arguments, paths, options)) {
    tensors_ = arguments;
    tensors_.insert(tensors_.end(), pair_.free_variables.begin(), pair_.free_variables.end());
    for (size_t i = 0; i < optimizer.entries().size(); ++i) {
      number_of_parameter_.emplace(optimizer.entries()[i].parameter.unsafeGetTensorImpl(), i);
    }
  }

  StepGraph build() {
    step_.graph = Graph(options_.name);
    step_.free_variables = pair_.free_variables;
    for (const auto& reads : pair_.host_reads) step_.host_state.emplace_back(reads, reads->hash());
    check_loss();
    find_kept();
    check_memory();
    const auto primals = add_tensors();
    const auto results = append(step_.graph, pair_.forward, primals);
    add_outputs_of_forward(results);
    const auto gradients = append(step_.graph, pair_.backward, inputs_of_backward(results));
    add_update(gradients);
    set_slots();
    return std::move(step_);
  }

 private:
  using Kind = StepInput::Kind;

  static Pair capture_pair(const FlatFunction& function, const std::vector<at::Tensor>& arguments,
                           const std::vector<std::string>& paths, const xla::DeviceStepOptions& options) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      DIPTYCH_CHECK(!arguments[i].defined() || arguments[i].device().is_cpu(),
                    "[step] '{}' is on {}, expected the CPU, from where a step sends it to its devices; use cpu()",
                    paths[i], arguments[i].device().str());
    }
    const FlatFunction only_loss = [&](const std::vector<at::Tensor>& tensors) {
      FlatResult result = function(tensors);
      for (size_t i = 1; i < result.tensors.size(); ++i) {
        if (result.tensors[i].defined()) result.tensors[i] = result.tensors[i].detach();
      }
      return result;
    };
    return capture_flat(only_loss, arguments, paths, {.partition = options.partition, .name = options.name});
  }

  void check_loss() const {
    const auto& outputs = pair_.signature.forward_outputs();
    const auto differentiable = pair_.signature.differentiable_outputs();
    DIPTYCH_CHECK(!outputs.empty() && outputs[0].meta && outputs[0].meta->numel() == 1 && !differentiable.empty() &&
                      differentiable[0] == 0,
                  "[step] the function's first result is not a loss: expected one element that parameters of the "
                  "optimizer reach by gradients; return the loss, or a pair of the loss and other results");
  }

  const std::string& path_of(size_t tensor) const { return pair_.forward.input_slots()[tensor].path; }
  const c10::TensorImpl* identity(size_t tensor) const { return tensors_[tensor].unsafeGetTensorImpl(); }

  // Tensors that steps change: parameters, and what the function writes to.
  void find_kept() {
    is_kept_.assign(tensors_.size(), false);
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (!tensors_[i].defined()) continue;
      is_kept_[i] = number_of_parameter_.count(identity(i)) != 0;
      DIPTYCH_CHECK(is_kept_[i] || !tensors_[i].requires_grad() || !pair_.signature.has_gradient(path_of(i)),
                    "[step] '{}' requires grad and is not a parameter of the optimizer; give it to the optimizer, or "
                    "detach it",
                    path_of(i));
    }
    for (const std::string& path : pair_.signature.mutated()) is_kept_[pair_.signature.index_of_input(path)] = true;
  }

  // A device has a copy of each tensor, so a change of one would not show in another that shares its memory.
  void check_memory() const {
    std::unordered_map<const c10::StorageImpl*, size_t> kept;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (is_kept_[i]) kept.emplace(tensors_[i].storage().unsafeGetStorageImpl(), i);
    }
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (!tensors_[i].defined() || !tensors_[i].has_storage()) continue;
      const auto found = kept.find(tensors_[i].storage().unsafeGetStorageImpl());
      DIPTYCH_CHECK(found == kept.end() || identity(found->second) == identity(i),
                    "[step] '{}' shares memory with '{}', which the step changes: on a device each has memory of its "
                    "own; clone one of them, or pass one and take the other from it inside the function",
                    path_of(i), path_of(found->second));
    }
  }

  Value add_input(const TensorMeta& meta, StepInput input) {
    step_.inputs.push_back(std::move(input));
    return step_.graph.add_input(meta, {SlotKind::kArgument, step_.inputs.back().name});
  }

  // One input for each tensor, wherever it is passed.
  std::vector<Value> add_tensors() {
    std::vector<Value> primals;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const TensorMeta& meta = pair_.forward.meta(pair_.forward.inputs()[i]);
      const auto known = tensors_[i].defined() ? input_of_.find(identity(i)) : input_of_.end();
      if (known != input_of_.end()) {
        primals.push_back(step_.graph.inputs()[known->second]);
        continue;
      }
      if (tensors_[i].defined()) input_of_.emplace(identity(i), step_.inputs.size());
      primals.push_back(add_input(meta, {is_kept_[i] ? Kind::kKept : Kind::kGiven, i, 0, path_of(i)}));
    }
    return primals;
  }

  // A result that is an input has memory of its own, which the step does not change.
  void add_output(Value value, StepOutput output) {
    const bool is_made = step_.graph.info(value).kind == ValueInfo::Kind::kNode;
    outputs_.push_back(is_made ? value : BackwardEmitter(step_.graph).call("aten.clone", {Operand(value)}));
    step_.outputs.push_back(output);
  }

  void add_outputs_of_forward(const std::vector<Value>& results) {
    const auto& slots = pair_.forward.output_slots();
    for (size_t i = 0; i < slots.size(); ++i) {
      if (slots[i].kind == SlotKind::kOutput) add_output(results[i], {StepOutput::Kind::kResult, i});
      if (slots[i].kind != SlotKind::kMutated) continue;
      const size_t input = input_of_.at(identity(pair_.signature.index_of_input(slots[i].path)));
      new_values_.emplace(input, results[i]);
    }
  }

  // The residuals, then the tangents: one for the loss, and zeros.
  std::vector<Value> inputs_of_backward(const std::vector<Value>& results) {
    const size_t first = pair_.split.layout.num_forward_outputs();
    std::vector<Value> inputs(results.begin() + static_cast<int64_t>(first), results.end());
    for (size_t i = inputs.size(); i < pair_.backward.inputs().size(); ++i) {
      const TensorMeta& meta = pair_.backward.meta(pair_.backward.inputs()[i]);
      const bool is_of_loss = i == results.size() - first;
      inputs.push_back(step_.graph.add_constant(is_of_loss ? at::ones(meta.size_hints(), meta.dtype)
                                                           : at::zeros(meta.size_hints(), meta.dtype)));
    }
    return inputs;
  }

  // The gradient of each parameter of the optimizer; a tensor that is passed twice has the sum.
  std::vector<Value> gradients_of_parameters(const std::vector<Value>& gradients) {
    std::vector<Value> found(optimizer_.entries().size());
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const auto known = tensors_[i].defined() ? number_of_parameter_.find(identity(i)) : number_of_parameter_.end();
      if (known == number_of_parameter_.end() || !gradients[i]) continue;
      Value& sum = found[known->second];
      sum = sum ? BackwardEmitter(step_.graph).call("aten.add.Tensor", {Operand(sum), Operand(gradients[i])})
                : gradients[i];
    }
    return found;
  }

  void add_update(const std::vector<Value>& gradients) {
    const auto found = gradients_of_parameters(gradients);
    std::vector<Value> inputs = add_optimizer_inputs(found);
    const size_t first_gradient = inputs.size();
    for (const size_t number : step_.updated) inputs.push_back(found[number]);
    const Graph update = trace_update(inputs, first_gradient);
    const auto results = append(step_.graph, update, inputs);
    size_t next = 0;
    if (options_.max_gradient_norm) add_output(results[next++], {StepOutput::Kind::kNorm, 0});
    for (const size_t target : updated_inputs_) new_values_[target] = results[next++];
    for (const auto& [input, value] : new_values_) {
      if (!(value == step_.graph.inputs()[input])) add_output(value, {StepOutput::Kind::kNewValue, input});
    }
  }

  // Numbers, rates, then for each updated parameter itself and its state.
  std::vector<Value> add_optimizer_inputs(const std::vector<Value>& found) {
    const auto count = static_cast<int64_t>(found.size());
    const auto groups = static_cast<int64_t>(optimizer_.learning_rates().size());
    std::vector<Value> inputs;
    inputs.push_back(add_input(TensorMeta::of(at::empty({count}, at::kDouble)), {Kind::kNumbers, 0, 0, "numbers"}));
    inputs.push_back(
        add_input(TensorMeta::of(at::empty({groups}, at::kDouble)), {Kind::kLearningRates, 0, 0, "learning_rates"}));
    for (size_t number = 0; number < found.size(); ++number) {
      if (!found[number]) continue;
      step_.updated.push_back(number);
      const size_t tensor = input_of_.at(optimizer_.entries()[number].parameter.unsafeGetTensorImpl());
      const Value parameter = step_.graph.inputs()[tensor];
      inputs.push_back(parameter);
      updated_inputs_.push_back(tensor);
      for (size_t k = 0; k < optimizer_.num_tensors(number); ++k) {
        updated_inputs_.push_back(step_.inputs.size());
        inputs.push_back(add_input(step_.graph.meta(parameter),
                                   {Kind::kOptimizerState, number, k,
                                    fmt::format("{}.{}", optimizer_.state_names()[k], step_.inputs[tensor].name)}));
      }
    }
    return inputs;
  }

  Graph trace_update(const std::vector<Value>& inputs, size_t first_gradient) const {
    std::vector<at::Tensor> stand_ins;
    std::vector<std::string> paths;
    for (size_t i = 0; i < inputs.size(); ++i) {
      stand_ins.push_back(stand_in(step_.graph.meta(inputs[i])));
      paths.push_back(fmt::format("update.{}", i));
    }
    const FlatFunction update = [&](const std::vector<at::Tensor>& tensors) {
      FlatResult result{update_all(tensors, first_gradient), {}};
      for (size_t i = 0; i < result.tensors.size(); ++i) result.paths.push_back(fmt::format("new.{}", i));
      return result;
    };
    return capture_flat(update, stand_ins, paths, {.name = options_.name}).forward;
  }

  std::vector<at::Tensor> update_all(const std::vector<at::Tensor>& tensors, size_t first_gradient) const {
    const auto& entries = optimizer_.entries();
    std::vector<at::Tensor> parameters(entries.size()), gradients(entries.size()), results;
    for (size_t i = 0; i < step_.updated.size(); ++i) gradients[step_.updated[i]] = tensors[first_gradient + i];
    gradients = prepared(std::move(gradients), results);
    size_t next = 2;
    for (const size_t number : step_.updated) {
      const size_t count = optimizer_.num_tensors(number), group = entries[number].group;
      const auto first = tensors.begin() + static_cast<int64_t>(next);
      UpdatedTensors tensor{*first, {first + 1, first + 1 + static_cast<int64_t>(count)}};
      next += 1 + count;
      if (gradients[number].defined()) {
        const at::Tensor& way = gradients[number];
        tensor = updated(optimizer_.rule(), optimizer_.group_options()[group], tensor,
                         optimizer_.maximizes(group) ? at::neg(way) : way,
                         tensors[0].select(0, static_cast<int64_t>(number)),
                         tensors[1].select(0, static_cast<int64_t>(group)));
      }
      results.push_back(tensor.parameter);
      results.insert(results.end(), tensor.states.begin(), tensor.states.end());
    }
    return results;
  }

  std::vector<at::Tensor> prepared(std::vector<at::Tensor> gradients, std::vector<at::Tensor>& results) const {
    if (options_.transform != nullptr) {
      options_.transform->begin();
      for (size_t i = 0; i < gradients.size(); ++i) {
        if (gradients[i].defined()) options_.transform->is_ready(i, gradients[i]);
      }
      std::vector<at::Tensor> parameters;
      for (const auto& entry : optimizer_.entries()) parameters.push_back(entry.parameter);
      const auto given = std::exchange(gradients, {});
      gradients = transform_gradients(*options_.transform, given, parameters,
                                      [&](size_t index) { return optimizer_.path_of(index); });
      for (size_t i = 0; i < gradients.size(); ++i) {
        DIPTYCH_CHECK(
            given[i].defined() || !gradients[i].defined(),
            "[step] the gradient transform '{}' returned a gradient for {}, which the loss does not reach, and "
            "which the step does not hold; leave it out of the optimizer, or undefined",
            options_.transform->key(), optimizer_.path_of(i));
      }
    }
    if (options_.max_gradient_norm) {
      results.push_back(clip_gradients(gradients, *options_.max_gradient_norm, options_.norm_type));
    }
    return gradients;
  }

  void set_slots() {
    std::vector<Slot> slots;
    for (size_t i = 0; i < outputs_.size(); ++i) slots.push_back({SlotKind::kOutput, fmt::format("{}", i)});
    step_.graph.set_outputs(std::move(outputs_), std::move(slots));
  }

  const OptimizerState& optimizer_;
  const xla::DeviceStepOptions& options_;
  const Pair pair_;
  std::vector<at::Tensor> tensors_;  // arguments, then free variables
  std::vector<bool> is_kept_;
  std::unordered_map<const c10::TensorImpl*, size_t> number_of_parameter_, input_of_;
  std::vector<size_t> updated_inputs_;
  std::map<size_t, Value> new_values_;  // by input
  std::vector<Value> outputs_;
  StepGraph step_;
};

}  // namespace

StepGraph capture_step_graph(const FlatFunction& function, const std::vector<at::Tensor>& arguments,
                             const std::vector<std::string>& paths, const OptimizerState& optimizer,
                             const xla::DeviceStepOptions& options) {
  return StepGraphBuilder(function, arguments, paths, optimizer, options).build();
}

}  // namespace diptych::detail
