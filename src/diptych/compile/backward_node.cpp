#include "diptych/compile/backward_node.h"

#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <algorithm>
#include <utility>

#include "diptych/autodiff/batched_tangents.h"
#include "diptych/base/check.h"
#include "diptych/base/last_error.h"
#include "diptych/base/switches.h"
#include "diptych/compile/second_order.h"
#include "diptych/interpreter/run_guards.h"
#include "diptych/trace/memory_order.h"

namespace diptych::detail {

using torch::autograd::variable_list;

namespace {

// Copies a tangent whose strides differ from those of the trace, but only if a node depends on them.
at::Tensor with_strides(const at::Tensor& tangent, const std::optional<WantedStrides>& wanted) {
  if (!wanted || !tangent.defined()) return tangent;
  if (wanted->is_dynamic) return detail::in_order(tangent, detail::MemoryOrder(wanted->strides));
  if (tangent.strides() == at::IntArrayRef(wanted->strides)) return tangent;
  return at::empty_strided(tangent.sizes(), wanted->strides, tangent.options()).copy_(tangent);
}

std::vector<bool> which_are_defined(const variable_list& tangents) {
  std::vector<bool> defined;
  for (const at::Tensor& tangent : tangents) defined.push_back(tangent.defined());
  return defined;
}

}  // namespace

void BackwardNode::watch(std::vector<Watch>& watches, const at::Tensor& tensor, size_t index) {
  // Inference tensors have no version, and autograd refuses to save them.
  if (!tensor.defined() || tensor.is_inference()) return;
  watches.push_back({tensor.unsafeGetTensorImpl()->version_counter(), static_cast<uint32_t>(tensor._version()), index});
}

void BackwardNode::check(const std::vector<Watch>& watches, const std::vector<at::Tensor>& needed,
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

void BackwardNode::save(c10::ArrayRef<at::Tensor> primals, c10::ArrayRef<at::Tensor> slots,
                        std::vector<at::Tensor>&& residuals, std::vector<at::Tensor>&& gradient_primals,
                        std::vector<at::Tensor>&& generator_states) {
  residuals_ = std::move(residuals);
  generator_states_ = std::move(generator_states);
  using Kind = CapturedFunction::ResidualSource::Kind;
  const auto& sources = function_->captured().residual_sources();
  for (size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].kind == Kind::kOwn) continue;
    watch(residual_watches_, sources[i].kind == Kind::kPrimal ? primals[sources[i].index] : slots[sources[i].index], i);
  }
  gradient_primals_ = std::move(gradient_primals);
  for (size_t i = 0; i < gradient_primals_.size(); ++i) watch(gradient_primal_watches_, gradient_primals_[i], i);
}

// Whether the run goes from all tangents of this stage to all of its gradients.
bool BackwardNode::is_whole(const BackwardRun& run) const {
  const auto& tangents = function_->captured().tangents_of(stage_);
  return run.gradients.empty() &&
         std::all_of(tangents.begin(), tangents.end(), [&](size_t tangent) { return run.tangents[tangent]; });
}

// The dynamic sizes, which are the last residual, do not count as a saved tensor: eager's nodes keep the sizes of their
// results without saving a tensor.
bool BackwardNode::has_saved() const {
  const size_t num_sizes = function_->is_dynamic() ? 1 : 0;
  const auto end = residuals_.end() - static_cast<std::ptrdiff_t>(std::min(num_sizes, residuals_.size()));
  const auto is_defined = [](const at::Tensor& residual) { return residual.defined(); };
  return std::any_of(residuals_.begin(), end, is_defined) || !gradient_primals_.empty() || !generator_states_.empty();
}

// Keeps the sizes, which hold no memory: a node that has saved nothing may run again, and needs them.
void BackwardNode::drop_residuals() {
  if (!function_->is_dynamic()) return residuals_.clear();
  for (size_t i = 0; i + 1 < residuals_.size(); ++i) residuals_[i] = at::Tensor();
}

// As in eager, a node that has saved nothing may run again.
void BackwardNode::release(const BackwardRun& run) {
  has_released_ = true;
  if (std::find(run.tangents.begin(), run.tangents.end(), true) == run.tangents.end()) return;
  if (is_whole(run)) {
    if (has_saved()) released_.push_back(run);
    drop_residuals();
    gradient_primals_.clear();
    generator_states_.clear();
    check_.reset();
    return;
  }
  released_.push_back(run);
  const auto kept = function_->captured().release_rules().kept(released_);
  for (size_t i = 0; i < residuals_.size() && i < kept.residuals.size(); ++i) {
    if (!kept.residuals[i]) residuals_[i] = at::Tensor();
  }
  for (size_t i = 0; i < gradient_primals_.size() && i < kept.primals.size(); ++i) {
    if (!kept.primals[i]) gradient_primals_[i] = at::Tensor();
  }
}

// A captured backward does not call apply(), so everything counts as used after it.
void BackwardNode::release_variables() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!has_released_) release({std::vector<bool>(function_->plan().num_tangents(), true), {}});
  has_released_ = false;
}

void BackwardNode::compiled_args(torch::dynamo::autograd::CompiledNodeArgs& args) const {
  TORCH_CHECK_NOT_IMPLEMENTED(
      function_->may_be_interpreted() && !c10::GradMode::is_enabled() && released_.empty() && !check_,
      "the backward of a compiled function stays eager");
  check(residual_watches_, residuals_);
  check_host_state();
  args.collect(function_->serial_number());
  args.collect(stage_);
  args.collect(residuals_);
}

variable_list BackwardNode::apply_with_saved(const variable_list& tangents,
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

variable_list BackwardNode::all_tangents(variable_list&& given) const {
  if (function_->plan().num_stages == 1) return std::move(given);
  variable_list tangents(function_->plan().num_tangents());
  const auto& places = function_->captured().tangents_of(stage_);
  for (size_t i = 0; i < given.size(); ++i) tangents[places[i]] = std::move(given[i]);
  return tangents;
}

// Runs the backward graph on stand-ins.
variable_list BackwardNode::inlined(const variable_list& given) const {
  return inlined_whole(all_tangents(variable_list(given)));
}

variable_list BackwardNode::inlined_whole(const variable_list& tangents) const {
  const auto defined = which_are_defined(tangents);
  if (std::find(defined.begin(), defined.end(), true) == defined.end()) return variable_list(num_outputs());
  const auto variant = function_->backward(defined);
  check_arity(*variant, tangents.size());
  std::vector<at::Tensor> inputs = residuals_;
  for (size_t i = 0; i < tangents.size(); ++i) inputs.push_back(with_strides(tangents[i], variant->wanted_strides[i]));
  return for_edges(function_->inlined(*variant)->run(std::move(inputs), {.differentiable = true}));
}

void BackwardNode::check_arity(const BackwardVariant& variant, size_t num_tangents) const {
  DIPTYCH_ASSERT(
      num_inputs() == function_->captured().tangents_of(stage_).size() && num_tangents == variant.wanted_strides.size(),
      "the backward of '{}' was called with {} tangents, has {} inputs, and was captured for {}",
      function_->options().name, num_tangents, num_inputs(), variant.wanted_strides.size());
}

// Adds undefined gradients for edges to primals that came after the capture, for which the graph has none.
variable_list BackwardNode::for_edges(variable_list&& gradients) const {
  DIPTYCH_ASSERT(gradients.size() <= num_outputs(), "the backward of '{}' returned {} gradients for {} inputs",
                 function_->options().name, gradients.size(), num_outputs());
  gradients.resize(num_outputs());
  return std::move(gradients);
}

void BackwardNode::check_host_state() const {
  for (const auto& [reads, hash] : host_state_) {
    DIPTYCH_CHECK(
        reads->hash() == hash,
        "[backward] the backward of '{}', which is in the graph of '{}', reads a variable, an attribute or code that "
        "has changed since the call; change it before the call or after the backward, or keep it in ctx",
        reads->name(), function_->options().name);
  }
}

// Returns which gradients the engine wants; empty means all that lead anywhere.
std::vector<bool> BackwardNode::wanted_gradients() const {
  const auto* info = torch::autograd::get_current_graph_task_exec_info();
  if (info == nullptr || info->empty()) return {};
  std::vector<bool> wanted(num_outputs());
  bool all = true;
  for (size_t i = 0; i < wanted.size(); ++i) {
    wanted[i] = task_should_compute_output(i);
    all = all && (wanted[i] || !next_edge(i).is_valid());
  }
  return all ? std::vector<bool>() : wanted;
}

variable_list BackwardNode::apply(variable_list&& given) {
  const std::lock_guard<std::mutex> lock(mutex_);
  variable_list tangents = all_tangents(std::move(given));
  const bool releases = std::exchange(will_release_, false);
  has_released_ = false;
  const BackwardRun run{which_are_defined(tangents), wanted_gradients()};
  if (std::find(run.tangents.begin(), run.tangents.end(), true) == run.tangents.end()) {
    if (releases) release(run);
    return variable_list(num_outputs());
  }
  TORCH_CHECK(released_.empty() || !function_->captured().release_rules().is_refused(run, released_),
              torch::autograd::ERR_BACKWARD_TWICE);
  return detail::called_by_engine([&] {
    check_host_state();
    const bool is_transformed = detail::is_transformed(tangents);
    if (c10::GradMode::is_enabled() || is_transformed) {
      const auto variant = function_->backward(run.tangents);
      auto gradients = is_transformed ? apply_transformed(*variant, tangents) : run_second_order(*variant, tangents);
      if (releases) release(run);
      return gradients;
    }
    // After a release, there may be residuals for only some of the gradients.
    const auto variant =
        released_.empty() ? function_->backward(run.tangents) : function_->backward_part(run.tangents, run.gradients);
    const BackwardRun* to_release = releases ? &run : nullptr;
    if (check_ != nullptr) [[unlikely]]
      return run_checked(*variant, std::move(tangents), to_release);
    return run_compiled(*variant, std::move(tangents), to_release);
  });
}

variable_list BackwardNode::run_checked(const BackwardVariant& variant, variable_list&& tangents,
                                        const BackwardRun* run) {
  const auto check = check_;
  std::vector<at::Tensor> inputs = residuals_;
  inputs.resize(variant.graph.inputs().size() - tangents.size());
  for (size_t i = 0; i < tangents.size(); ++i) inputs.push_back(with_strides(tangents[i], variant.wanted_strides[i]));
  check->run_original(tangents);
  auto gradients = run_compiled(variant, std::move(tangents), run);
  check->compare(gradients, next_edges(), &variant.graph, std::move(inputs));
  return gradients;
}

// Runs a batch element by element, and other transformed tangents through the operators of the backward graph, each of
// which knows what to do with them.
variable_list BackwardNode::apply_transformed(const BackwardVariant& variant, const variable_list& tangents) {
  if (detail::are_batches(tangents)) {
    return detail::backward_by_element(function_->options().name, tangents, [&](const variable_list& element) {
      if (c10::GradMode::is_enabled()) return run_second_order(variant, element);
      return run_compiled(variant, variable_list(element), nullptr);
    });
  }
  if (c10::GradMode::is_enabled()) return run_second_order(variant, tangents);
  if (!released_.empty()) check_kept(variant);
  check(residual_watches_, residuals_, &variant.reads_residual);
  return inlined_whole(tangents);
}

// A residual that an earlier backward released is undefined.
void BackwardNode::check_kept(const BackwardVariant& variant) const {
  for (size_t i = 0; i < variant.reads_residual.size(); ++i) {
    TORCH_CHECK(!variant.reads_residual[i] || (i < residuals_.size() && residuals_[i].defined()),
                torch::autograd::ERR_BACKWARD_TWICE);
  }
}

// Hands over the residuals if nobody needs them any more, so that each is freed when its last reader has run.
std::vector<at::Tensor> BackwardNode::take_residuals(const BackwardRun* run) {
  if (run == nullptr) return residuals_;
  std::vector<at::Tensor> taken = residuals_;
  release(*run);
  return taken;
}

variable_list BackwardNode::run_compiled(const BackwardVariant& variant, variable_list&& tangents,
                                         const BackwardRun* run) {
  check_arity(variant, tangents.size());
  if (!released_.empty()) check_kept(variant);
  check(residual_watches_, residuals_, &variant.reads_residual);
  std::vector<at::Tensor> inputs = take_residuals(run);
  inputs.resize(variant.graph.inputs().size() - tangents.size());
  const RunBelowAutograd guard;
  for (size_t i = 0; i < tangents.size(); ++i) inputs.push_back(with_strides(tangents[i], variant.wanted_strides[i]));
  std::vector<const c10::TensorImpl*> given;
  for (const at::Tensor& tangent : tangents) given.push_back(tangent.unsafeGetTensorImpl());
  tangents.clear();
  variable_list gradients = variant.executable->run(std::move(inputs));
  // A gradient may reuse the tensor of a residual that dies there and that was a result with a history; that history is
  // dropped. A gradient that is one of the tangents keeps its own history.
  for (at::Tensor& gradient : gradients) {
    if (!gradient.defined() || !gradient.requires_grad()) continue;
    const auto* impl = gradient.unsafeGetTensorImpl();
    if (std::find(given.begin(), given.end(), impl) == given.end()) gradient = gradient.detach();
  }
  return for_edges(std::move(gradients));
}

// Returns a result of this stage with its history, without which it was saved so that the node does not own itself.
at::Tensor BackwardNode::with_own_history(const at::Tensor& start, size_t index) {
  const size_t num_primals = function_->captured().gradient_primals().size();
  if (index < num_primals) return start;
  const size_t crossing = function_->captured().gradient_crossings()[index - num_primals];
  if (!function_->captured().is_own_result(crossing, stage_)) return start;
  const auto& plan = function_->plan();
  const auto& tangents = function_->captured().tangents_of(stage_);
  const auto input = std::find_if(tangents.begin(), tangents.end(), [&](size_t tangent) {
    return tangent < plan.differentiable.size() && plan.differentiable[tangent] == plan.crossings[crossing].index;
  });
  at::Tensor result = start.tensor_data();
  torch::autograd::impl::set_gradient_edge(result, {getptr(), static_cast<uint32_t>(input - tangents.begin())});
  return result;
}

variable_list BackwardNode::run_second_order(const BackwardVariant& variant, const variable_list& tangents) {
  const bool is_dynamic = function_->is_dynamic();
  const auto second_order =
      function_->second_order(variant, stage_, is_dynamic ? residuals_.back().sizes() : c10::IntArrayRef());
  const auto& [has_sizes, are_given] = second_order->starts();
  check(gradient_primal_watches_, gradient_primals_, &are_given);
  std::vector<at::Tensor> starts;
  if (has_sizes) starts.push_back(residuals_.back());
  for (size_t i = 0; i < are_given.size(); ++i) {
    if (!are_given[i]) continue;
    TORCH_CHECK(i < gradient_primals_.size() && gradient_primals_[i].defined(), torch::autograd::ERR_BACKWARD_TWICE);
    starts.push_back(with_own_history(gradient_primals_[i], i));
  }
  return for_edges(second_order->gradients(starts, tangents, generator_states_));
}

}  // namespace diptych::detail
