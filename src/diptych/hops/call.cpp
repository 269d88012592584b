#include "diptych/hops/call.h"

#include <ATen/functorch/Interpreter.h>
#include <ATen/ops/_make_dual.h>
#include <ATen/ops/_unpack_dual.h>
#include <ATen/ops/alias.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "diptych/autodiff/batched_tangents.h"
#include "diptych/base/check.h"
#include "diptych/base/error_words.h"
#include "diptych/base/last_error.h"
#include "diptych/base/list.h"
#include "diptych/hops/transforms/call_at_level.h"
#include "diptych/interpreter/run_guards.h"
#include "diptych/trace/own_history.h"
#include "diptych/trace/recorder.h"
#include "diptych/trace/transforms.h"

namespace diptych {

using namespace detail;
namespace {

namespace ag = torch::autograd;

// Tensors that a backward may read; each is checked for changes when it is read.
class SavedTensors final : public SavedCall {
 public:
  SavedTensors(c10::ArrayRef<at::Tensor> operands, c10::ArrayRef<at::Tensor> residuals) {
    for (const at::Tensor& tensor : operands) operands_.emplace_back(tensor, /*is_output=*/false);
    for (const at::Tensor& tensor : residuals) residuals_.emplace_back(tensor, /*is_output=*/false);
  }
  at::Tensor operand(size_t index) const override { return operands_.at(index).unpack(); }
  at::Tensor residual(size_t index) const override { return residuals_.at(index).unpack(); }
  size_t num_operands() const { return operands_.size(); }

 private:
  std::vector<ag::SavedVariable> operands_;
  std::vector<ag::SavedVariable> residuals_;
};

/// The tensors of a saved call as they are below a level.
class SavedBelow final : public SavedCall {
 public:
  SavedBelow(const SavedCall& saved, const TransformLevel& level) : saved_(saved), level_(level) {}
  at::Tensor operand(size_t index) const override { return unwrap(saved_.operand(index), level_).value; }
  at::Tensor residual(size_t index) const override { return unwrap(saved_.residual(index), level_).value; }

 private:
  const SavedCall& saved_;
  const TransformLevel& level_;
};

/// The autograd node of one call. Everything a backward needs is in it, so that it may run on any thread.
class HopNode final : public ag::Node {
 public:
  HopNode(HopPtr hop, std::shared_ptr<const Derivative> derivative, std::vector<bool> requires_grad)
      : hop_(std::move(hop)), derivative_(std::move(derivative)), requires_grad_(std::move(requires_grad)) {}

  const Derivative& derivative() const { return *derivative_; }
  void save(c10::ArrayRef<at::Tensor> operands, c10::ArrayRef<at::Tensor> residuals) {
    saved_ = std::make_unique<SavedTensors>(operands, residuals);
  }
  std::string name() const override { return fmt::format("DiptychBackward(hop.{})", hop_->op().schema().name()); }
  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    saved_.reset();
  }

 private:
  ag::variable_list apply(ag::variable_list&& given) override;
  ag::variable_list apply_again(const std::vector<at::Tensor>& tangents) const;
  ag::variable_list apply_again_if_possible(const std::vector<at::Tensor>& tangents) const;

  HopPtr hop_;
  std::shared_ptr<const Derivative> derivative_;
  std::vector<bool> requires_grad_;
  std::unique_ptr<SavedTensors> saved_;
};

ag::variable_list HopNode::apply(ag::variable_list&& given) {
  const std::lock_guard<std::mutex> lock(mutex_);
  TORCH_CHECK(saved_ != nullptr, ag::ERR_BACKWARD_TWICE);
  // Only results that require grad have a tangent.
  std::vector<at::Tensor> tangents(hop_->num_results());
  size_t next = 0;
  bool any = false;
  for (size_t i = 0; i < tangents.size(); ++i) {
    if (!derivative_->requires_grad()[i]) continue;
    tangents[i] = std::move(given[next++]);
    any = any || tangents[i].defined();
  }
  if (!any) return ag::variable_list(num_outputs());
  const auto backward = [&](const ag::variable_list& plain) {
    if (!c10::GradMode::is_enabled()) return derivative_->backward(*saved_, plain);
    return levels_are_active() ? apply_again_if_possible(plain) : apply_again(plain);
  };
  return detail::called_by_engine([&] {
    return detail::are_legacy_batches(tangents) && !detail::is_tracing()
               ? detail::backward_by_element(hop_->op().schema().name(), tangents, backward)
               : backward(tangents);
  });
}

ag::variable_list HopNode::apply_again(const std::vector<at::Tensor>& tangents) const {
  const auto derivative = hop_->derivative(requires_grad_, /*create_graph=*/true);
  std::vector<at::Tensor> operands;
  for (size_t i = 0; i < saved_->num_operands(); ++i) operands.push_back(saved_->operand(i));
  // What only the backward reads comes last.
  auto results = call(derivative->forward(), part(operands, 0, derivative->forward()->num_operands()));
  results.erase(results.begin(), results.begin() + static_cast<int64_t>(derivative->first_residual(*hop_)));
  return derivative->backward(CalledAgain(std::move(operands), std::move(results)), tangents);
}

// Gives gradients the history of what was read for them, whose derivative is an error.
void raise_if_differentiated(ag::variable_list& gradients, const std::vector<at::Tensor>& read,
                             const std::string& why) {
  const auto requires_grad = [](const at::Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); };
  if (std::none_of(read.begin(), read.end(), requires_grad)) return;
  for (at::Tensor& gradient : gradients) {
    if (!gradient.defined()) continue;
    gradient = at::alias(gradient);
    ag::set_history(gradient, c10::make_intrusive<ag::Error>(why, ag::collect_next_edges(read)));
  }
}

// torch.func asks for gradients that can be differentiated again, whether they are or not: where the second derivative
// is not known, it is an error only when it is asked for.
ag::variable_list HopNode::apply_again_if_possible(const std::vector<at::Tensor>& tangents) const {
  const TransformLevel level = innermost_level();
  if (level.kind != at::functorch::TransformType::Grad) return apply_again(tangents);
  std::string why;
  try {
    return apply_again(tangents);
  } catch (const std::exception& error) {
    why = words_of(error);
  }
  std::vector<at::Tensor> read = tangents, below;
  for (size_t i = 0; i < saved_->num_operands(); ++i) read.push_back(saved_->operand(i));
  for (const at::Tensor& tensor : read) below.push_back(unwrap(tensor, level).value);
  const std::vector<at::Tensor> plain = part(below, 0, tangents.size());
  ag::variable_list gradients;
  {
    const BelowLevel outside;
    // Levels around this one record the backward; where there are none, autograd has the same to say as this level.
    const bool is_outermost = !levels_are_active();
    const c10::AutoGradMode record(c10::GradMode::is_enabled() && !is_outermost);
    gradients = derivative_->backward(SavedBelow(*saved_, level), plain);
    if (is_outermost) raise_if_differentiated(gradients, below, why);
  }
  for (at::Tensor& gradient : gradients) gradient = wrap(gradient, level);
  raise_if_differentiated(gradients, read, why);
  return gradients;
}

// Makes the node of a call; returns null if no result would require grad. The node must be made before the call is
// recorded, because the recorded call is identified by the node's sequence number.
c10::intrusive_ptr<HopNode> make_node(const HopPtr& hop, const std::vector<at::Tensor>& operands) {
  std::vector<bool> requires_grad;
  for (const at::Tensor& operand : operands) requires_grad.push_back(operand.requires_grad());
  const auto derivative = hop->derivative(requires_grad, /*create_graph=*/false);
  const auto& differentiable = derivative->requires_grad();
  if (std::find(differentiable.begin(), differentiable.end(), true) == differentiable.end()) return {};
  auto node = c10::make_intrusive<HopNode>(hop, derivative, std::move(requires_grad));
  node->set_next_edges(ag::collect_next_edges(operands));
  return node;
}

void set_histories(std::vector<at::Tensor>& results, const c10::intrusive_ptr<HopNode>& node) {
  for (size_t i = 0; i < results.size(); ++i) {
    if (node->derivative().requires_grad()[i]) ag::set_history(results[i], node);
  }
}

/// The forward-mode tangents of results that are about to get a history. The backward of a dual is one of duals: the
/// node saves operands and residuals with their tangents, and the history of a result is the node's alone.
class TangentsAside {
 public:
  explicit TangentsAside(std::vector<at::Tensor>& results) : tangents_(results.size()) {
    for (size_t i = 0; i < results.size(); ++i) {
      if (!has_tangent(results[i])) continue;
      tangents_[i] = std::get<1>(at::_unpack_dual(results[i], 0));
      results[i] = results[i].detach();
    }
  }
  void put_back(std::vector<at::Tensor>& results) const {
    for (size_t i = 0; i < results.size(); ++i) {
      if (tangents_[i].defined()) results[i] = at::_make_dual(results[i], tangents_[i], 0);
    }
  }

 private:
  std::vector<at::Tensor> tangents_;
};

std::vector<at::Tensor> record(const Hop& hop, const std::vector<at::Tensor>& operands,
                               const std::vector<bool>& requires_grad) {
  auto& recorder = *detail::Recorder::current();
  std::vector<Value> values;
  for (const at::Tensor& operand : operands) values.push_back(recorder.value_of(recorder.stand_in(operand)));
  std::vector<TensorMeta> results = hop.results();
  for (size_t i = 0; i < results.size(); ++i) results[i].requires_grad = i < requires_grad.size() && requires_grad[i];
  return recorder.record_hop(hop.node(values), results);
}

}  // namespace

// A hop without results is called for its draws.
bool detail::records_gradients(const Hop& hop, const std::vector<at::Tensor>& operands) {
  return hop.num_results() > 0 && c10::GradMode::is_enabled() &&
         std::any_of(operands.begin(), operands.end(), [](const at::Tensor& t) { return t.requires_grad(); });
}

std::vector<at::Tensor> detail::call_below_autograd(const Hop& hop, std::vector<at::Tensor> operands,
                                                    const std::vector<bool>& requires_grad) {
  if (levels_are_active()) return call_below_grad(hop, operands);
  if (any_tangent(operands)) return call_on_duals(hop.shared_from_this(), std::move(operands));
  if (is_tracing()) return record(hop, operands, requires_grad);
  const RunBelowAutograd guard;
  return hop.run(std::move(operands), requires_grad.empty() ? hop.num_results() : requires_grad.size());
}

std::vector<at::Tensor> detail::call_by_derivative(const HopPtr& hop, std::vector<at::Tensor>&& operands) {
  if (hop->draws()) {
    const auto& lifted = hop->lifted_draws();
    const auto drawn = detail::call_below_autograd(*lifted.draws, operands);
    operands.insert(operands.begin() + static_cast<int64_t>(hop->begin(lifted.group + 1)),
                    drawn.begin() + static_cast<int64_t>(lifted.first), drawn.end());
    return call(lifted.rest, std::move(operands));
  }
  const auto node = make_node(hop, operands);
  if (!node) return detail::call_below_autograd(*hop, std::move(operands));
  auto results =
      detail::call_below_autograd(*node->derivative().forward(), operands, node->derivative().requires_grad());
  const auto end = results.begin() + static_cast<int64_t>(hop->num_results());
  node->save(operands, std::vector<at::Tensor>(std::make_move_iterator(end), std::make_move_iterator(results.end())));
  results.erase(end, results.end());
  const TangentsAside tangents(results);
  set_histories(results, node);
  tangents.put_back(results);
  return results;
}

std::vector<at::Tensor> detail::attach_history(const HopPtr& hop, const std::vector<at::Tensor>& operands,
                                               std::vector<at::Tensor> results,
                                               const std::vector<at::Tensor>& residuals) {
  const auto node = make_node(hop, operands);
  if (!node) return results;
  node->save(operands, residuals);
  set_histories(results, node);
  return results;
}

// A gradient that autograd knows to be zero has no memory, which kernels read.
static at::Tensor with_memory(const at::Tensor& operand) {
  return operand.defined() && operand._is_zerotensor() ? operand.clone() : operand;
}

std::vector<at::Tensor> call(const HopPtr& hop, std::vector<at::Tensor> operands) {
  DIPTYCH_ASSERT(operands.size() == hop->num_operands(), "hop.{} got {} operands, expected {}",
                 hop->op().schema().name(), operands.size(), hop->num_operands());
  for (at::Tensor& operand : operands) operand = value_of_dead(operand);
  if (levels_are_active()) return call_at_level(hop, std::move(operands));
  if (detail::is_tracing()) {
    auto& recorder = *detail::Recorder::current();
    for (at::Tensor& operand : operands) operand = detail::with_own_history(recorder, recorder.stand_in(operand));
  } else {
    for (at::Tensor& operand : operands) operand = with_memory(operand);
    if (!any_tangent(operands)) detail::check_plain(hop->op().schema().name(), operands);
  }
  const bool records = records_gradients(*hop, operands);
  // The history of a dual's primal is not in the graph, which alone says what a further derivative is.
  DIPTYCH_CHECK(
      !records || !is_tracing() || !any_tangent(operands),
      "[{}] got a forward-mode dual that is differentiated in reverse as well, inside of a capture, where the "
      "graph would not show it; call the function itself there, or use torch.func.jvp around the capture",
      hop->op().schema().name());
  return records ? hop->op().call_with_grad(hop, std::move(operands))
                 : detail::call_below_autograd(*hop, std::move(operands));
}

}  // namespace diptych
