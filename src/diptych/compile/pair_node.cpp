#include "diptych/compile/pair_node.h"

#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include "diptych/base/last_error.h"
#include "diptych/base/switches.h"
#include "diptych/compile/second_order.h"
#include "diptych/interpreter/run_guards.h"
#include "diptych/trace/memory_order.h"

namespace diptych {

using torch::autograd::variable_list;

namespace {

// A tangent of other strides than the graph was traced for is copied only where a node depends on them.
at::Tensor with_strides(const at::Tensor& tangent, const std::optional<WantedStrides>& wanted) {
  if (!wanted || !tangent.defined()) return tangent;
  if (wanted->is_dynamic) return detail::in_order(tangent, detail::MemoryOrder(wanted->strides));
  if (tangent.strides() == at::IntArrayRef(wanted->strides)) return tangent;
  return at::empty_strided(tangent.sizes(), wanted->strides, tangent.options()).copy_(tangent);
}

}  // namespace

void PairNode::watch(std::vector<Watch>& watches, const at::Tensor& tensor, size_t index) {
  // Inference tensors have no version, and autograd refuses to save them.
  if (!tensor.defined() || tensor.is_inference()) return;
  watches.push_back({tensor.unsafeGetTensorImpl()->version_counter(), static_cast<uint32_t>(tensor._version()), index});
}

void PairNode::check(const std::vector<Watch>& watches, const std::vector<at::Tensor>& needed,
                     const std::vector<bool>* reads) {
  for (const Watch& watch : watches) {
    if (reads != nullptr && !(*reads)[watch.index]) continue;
    TORCH_CHECK(watch.counter.current_version() == watch.version,
                "one of the variables needed for gradient computation has been modified by an inplace operation: [",
                needed[watch.index].toString(), " ", needed[watch.index].sizes(), "] is at version ",
                watch.counter.current_version(), "; expected version ", watch.version,
                " instead. Hint: the backward of the compiled function reads it; clone it before changing it.");
  }
}

void PairNode::save(c10::ArrayRef<at::Tensor> primals, c10::ArrayRef<at::Tensor> slots,
                    std::vector<at::Tensor>&& residuals, std::vector<at::Tensor>&& gradient_primals,
                    std::vector<at::Tensor>&& generator_states) {
  residuals_ = std::move(residuals);
  generator_states_ = std::move(generator_states);
  using Kind = CompiledFunction::ResidualSource::Kind;
  const auto& sources = function_->residual_sources();
  for (size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].kind == Kind::kOwn) continue;
    watch(residual_watches_, sources[i].kind == Kind::kPrimal ? primals[sources[i].index] : slots[sources[i].index], i);
  }
  gradient_primals_ = std::move(gradient_primals);
  for (size_t i = 0; i < gradient_primals_.size(); ++i) watch(gradient_primal_watches_, gradient_primals_[i], i);
}

// As in eager, a node that has saved nothing may run again.
void PairNode::release_variables() {
  const std::lock_guard<std::mutex> lock(mutex_);
  released_ = released_ || !residuals_.empty() || !gradient_primals_.empty() || !generator_states_.empty();
  residuals_.clear();
  gradient_primals_.clear();
  generator_states_.clear();
}

void PairNode::compiled_args(torch::dynamo::autograd::CompiledNodeArgs& args) const {
  const auto& options = function_->options();
  const bool is_interpreted =
      !options.forward_compiler && !options.backward_compiler && options.backend == "interpreter";
  TORCH_CHECK_NOT_IMPLEMENTED(is_interpreted && !c10::GradMode::is_enabled() && !released_,
                              "the backward of a compiled function is run as it is");
  check(residual_watches_, residuals_);
  args.collect(function_->serial_number());
  args.collect(residuals_);
}

variable_list PairNode::apply_with_saved(const variable_list& tangents,
                                         torch::dynamo::autograd::SwapSavedVariables& saved) {
  saved.before(residuals_);
  const auto& compiler = torch::dynamo::autograd::getPyCompilerInterface();
  const auto function = [this](const variable_list& given, const std::vector<c10::IValue>&) { return inlined(given); };
  const std::string bound = compiler->bind_function(saved.get_py_compiler(), name(), function, {},
                                                    /*is_custom_function=*/true, /*is_traceable=*/true);
  auto gradients = compiler->call_function(saved.get_py_compiler(), "apply_functional", bound, tangents, {}, {});
  saved.after(residuals_);
  return gradients;
}

// The backward graph once more, on stand-ins.
variable_list PairNode::inlined(const variable_list& tangents) const {
  std::vector<bool> defined;
  for (const at::Tensor& tangent : tangents) defined.push_back(tangent.defined());
  if (std::find(defined.begin(), defined.end(), true) == defined.end()) return variable_list(num_outputs());
  const auto variant = function_->backward(defined);
  std::vector<at::Tensor> inputs = residuals_;
  for (size_t i = 0; i < tangents.size(); ++i) inputs.push_back(with_strides(tangents[i], variant->wanted_strides[i]));
  auto gradients = function_->inlined(*variant)->run(std::move(inputs), {.differentiable = true});
  gradients.resize(num_outputs());
  return gradients;
}

variable_list PairNode::apply(variable_list&& tangents) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<bool> defined;
  for (const at::Tensor& tangent : tangents) defined.push_back(tangent.defined());
  if (std::find(defined.begin(), defined.end(), true) == defined.end()) return variable_list(num_outputs());
  TORCH_CHECK(!released_, torch::autograd::ERR_BACKWARD_TWICE);
  return detail::called_by_engine([&] {
    const auto variant = function_->backward(defined);
    return c10::GradMode::is_enabled() ? run_second_order(*variant, tangents)
                                       : run_compiled(*variant, std::move(tangents));
  });
}

variable_list PairNode::run_compiled(const BackwardVariant& variant, variable_list&& tangents) {
  check(residual_watches_, residuals_, &variant.reads_residual);
  std::vector<at::Tensor> inputs;
  inputs.reserve(residuals_.size() + tangents.size());
  if (will_release_) {
    // Handed over, so that each is freed when its last reader has run.
    for (at::Tensor& residual : residuals_) inputs.push_back(std::move(residual));
    released_ = !residuals_.empty() || !gradient_primals_.empty();
    residuals_.clear();
  } else {
    inputs = residuals_;
  }
  const RunBelowAutograd guard;
  for (size_t i = 0; i < tangents.size(); ++i) inputs.push_back(with_strides(tangents[i], variant.wanted_strides[i]));
  tangents.clear();
  auto gradients = variant.executable->run(std::move(inputs));
  gradients.resize(num_outputs());
  return gradients;
}

variable_list PairNode::run_second_order(const BackwardVariant& variant, const variable_list& tangents) {
  DIPTYCH_CHECK(!function_->plan().hides_history,
                "[{}] the function changes a tensor in place where autograd does not see it (under no_grad, or through "
                "detach()), so that its backward can't be differentiated again; use an out-of-place operator there",
                function_->options().name);
  check(gradient_primal_watches_, gradient_primals_);
  return function_->second_order(variant)->gradients(gradient_primals_, tangents, generator_states_);
}

}  // namespace diptych
