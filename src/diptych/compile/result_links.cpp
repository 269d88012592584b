#include "diptych/compile/result_links.h"

#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "diptych/compile/backward_node.h"
#include "diptych/graph/size_pattern.h"

namespace diptych::detail {
namespace {

namespace ag = torch::autograd;
using Crossing = ForwardPlan::Crossing;

// Makes this the only handle of its tensor: no other handle of this call may receive the history that is set on it.
void make_sole_owner(at::Tensor& tensor) {
  if (tensor.use_count() > 1) tensor = tensor.tensor_data();
}

// Marks a view that a torch.autograd.Function made, so that autograd refuses changes of it in place. If the compiler
// made it a tensor of its own, there is nothing to guard.
void mark_as_view_of_function(at::Tensor& tensor, const at::Tensor& base) {
  if (!tensor.is_alias_of(base)) return;
  tensor = ag::as_view(base, tensor, /*is_bw_differentiable=*/true, /*is_fw_differentiable=*/false, nullptr, nullptr,
                       ag::CreationMeta::IN_CUSTOM_FUNCTION);
}

void apply_mutation(const MutationPlan& mutation, const at::Tensor& primal, const at::Tensor& new_value) {
  const at::AutoGradMode mode(!mutation.under_no_grad && c10::GradMode::is_enabled());
  if (mutation.geometry) {
    const auto& geometry = *mutation.geometry;
    primal.as_strided_(geometry.sizes, geometry.strides, primal.storage_offset() + geometry.offset);
  }
  if (mutation.data) (mutation.counts ? primal : primal.variable_data()).copy_(new_value);
}

// Returns the sizes that a hidden tangent has in this call.
c10::SymDimVector sizes_of(const TensorMeta& meta, const std::vector<at::Tensor>& residuals) {
  std::map<std::string, int64_t> symbols;
  if (!meta.is_static()) {
    const auto values = residuals.back().sizes();
    for (size_t i = 0; i + 1 < values.size(); ++i) symbols[SizePattern::name_of(i)] = values[i];
  }
  c10::SymDimVector sizes;
  for (const SizeExpr& size : meta.sizes) sizes.emplace_back(size.evaluate(symbols));
  return sizes;
}

// Returns an alias that keeps the history `edge`, whatever happens to the tensor later.
at::Tensor with_history(const at::Tensor& tensor, const ag::Edge& edge) {
  at::Tensor alias = tensor.tensor_data();
  ag::impl::set_gradient_edge(alias, edge);
  return alias;
}

}  // namespace

ResultLinks::ResultLinks(const CompiledFunction& function, const std::vector<at::Tensor>& primals)
    : function_(function), primals_(primals) {
  if (!function.captured().is_differentiable()) return;
  primal_edges_.reserve(primals.size());
  for (const at::Tensor& primal : primals) {
    primal_edges_.push_back(primal.requires_grad() ? ag::impl::gradient_edge(primal) : ag::Edge());
  }
}

ResultLinks::~ResultLinks() = default;

void ResultLinks::link(std::vector<at::Tensor>& slots, const std::vector<at::Tensor>& residuals) {
  const ForwardPlan& plan = function_.plan();
  for (const size_t leaf : plan.fresh_leaves) {
    make_sole_owner(slots[leaf]);
    slots[leaf].set_requires_grad(true);
  }
  for (const size_t slot : plan.differentiable) make_sole_owner(slots[slot]);
  for (const auto& view : plan.function_views) {
    const at::Tensor& base = view.base.is_primal ? primals_[view.base.index] : slots[view.base.index];
    make_sole_owner(slots[view.slot]);
    mark_as_view_of_function(slots[view.slot], base);
  }
  is_applied_.resize(plan.mutations.size());
  if (function_.captured().is_differentiable()) {
    nodes_.resize(plan.num_stages);
    crossing_edges_.resize(plan.crossings.size());
    // A tensor to which a stage hands gradients must have its own place in autograd's graph before that stage is
    // linked, and must be in its final state: after a later write, autograd would regenerate the place of a view.
    std::vector<bool> unseen(slots.size());
    for (const auto& mutation : plan.mutations) {
      if (mutation.data && mutation.under_no_grad) unseen[mutation.slot] = true;
    }
    if (plan.num_stages > 1) apply_mutations(slots, unseen);
    for (size_t stage = plan.num_stages; stage-- > 0;) link_stage(stage, slots, residuals);
  }
  if (!plan.mutations.empty()) apply_mutations(slots, std::vector<bool>(slots.size(), true));
}

// Applies the mutations whose slots are marked in `of_slots`, and those that change only a shape.
void ResultLinks::apply_mutations(const std::vector<at::Tensor>& slots, const std::vector<bool>& of_slots) {
  const auto& mutations = function_.plan().mutations;
  for (size_t i = 0; i < mutations.size(); ++i) {
    const auto& mutation = mutations[i];
    if (is_applied_[i] || (mutation.data && (of_slots.empty() || !of_slots[mutation.slot]))) continue;
    apply_mutation(mutation, primals_[mutation.primal], mutation.data ? slots[mutation.slot] : at::Tensor());
    is_applied_[i] = true;
  }
}

void ResultLinks::link_stage(size_t stage, std::vector<at::Tensor>& slots, const std::vector<at::Tensor>& residuals) {
  const ForwardPlan& plan = function_.plan();
  const auto& tangents = function_.captured().tangents_of(stage);
  if (tangents.empty()) return;
  auto& node = nodes_[stage];
  node = c10::make_intrusive<BackwardNode>(function_.shared_from_this(), stage);
  node->set_host_state(function_.captured().host_state());
  const auto& leads_to = plan.leads_to[stage];
  ag::edge_list edges(primals_.size() + plan.crossings.size());
  const size_t num_known = leads_to.size() - plan.crossings.size();  // primals that only the backward reads come later
  for (size_t i = 0; i < num_known; ++i) {
    if (leads_to[i]) edges[i] = primal_edges_[i];
  }
  for (size_t i = 0; i < plan.crossings.size(); ++i) {
    if (!leads_to[num_known + i]) continue;
    if (!crossing_edges_[i].is_valid()) crossing_edges_[i] = edge_of(plan.crossings[i], slots);
    edges[primals_.size() + i] = crossing_edges_[i];
  }
  node->set_next_edges(std::move(edges));
  std::vector<bool> linked(plan.num_stages > 1 ? slots.size() : 0);
  for (const size_t tangent : tangents) {
    if (tangent < plan.differentiable.size()) {
      const size_t slot = plan.differentiable[tangent];
      ag::set_history(slots[slot], node);
      if (!linked.empty()) linked[slot] = true;
      continue;
    }
    const TensorMeta& meta = function_.hidden_metas()[tangent - plan.differentiable.size()];
    node->add_input_metadata(at::TensorOptions(meta.dtype).device(meta.device), sizes_of(meta, residuals),
                             /*is_tensor_subclass=*/false, /*is_nested=*/false, meta.dtype);
  }
  if (!linked.empty()) apply_mutations(slots, linked);
}

ag::Edge ResultLinks::edge_of(const Crossing& crossing, const std::vector<at::Tensor>& slots) {
  const auto& plan = function_.plan();
  switch (crossing.kind) {
    case Crossing::Kind::kSlot:
      for (const auto& mutation : plan.mutations) {
        if (mutation.data && mutation.slot == crossing.index) return ag::impl::gradient_edge(primals_[mutation.primal]);
      }
      return ag::impl::gradient_edge(slots[crossing.index]);
    case Crossing::Kind::kLeaf:
      return ag::impl::gradient_edge(slots[crossing.index]);
    case Crossing::Kind::kPrimal:
      return ag::impl::gradient_edge(primals_[crossing.index]);
    case Crossing::Kind::kOutput:
      made_.resize(plan.outputs.size());
      made_[crossing.index] = function_.make_output(crossing.index, primals_, slots);
      return ag::impl::gradient_edge(made_[crossing.index]);
    case Crossing::Kind::kHidden:
      break;
  }
  const auto& tangents = function_.captured().tangents_of(crossing.stage);
  const auto position = std::find(tangents.begin(), tangents.end(), crossing.index) - tangents.begin();
  return {nodes_[crossing.stage], static_cast<uint32_t>(position)};
}

// Returns what a derivative of the gradients with respect to a crossing starts from.
at::Tensor ResultLinks::start_of(size_t index, size_t stage, const std::vector<at::Tensor>& slots) const {
  const auto& crossing = function_.plan().crossings[index];
  const ag::Edge& edge = crossing_edges_[index];
  // A node that held its own result, with the history of that result, would hold itself.
  if (function_.captured().is_own_result(index, stage)) return slots[crossing.index].tensor_data();
  switch (crossing.kind) {
    case Crossing::Kind::kLeaf:
      return slots[crossing.index];
    case Crossing::Kind::kPrimal:
      return with_history(primals_[crossing.index], edge);
    case Crossing::Kind::kOutput:
      return with_history(made_[crossing.index], edge);
    default:
      break;
  }
  for (const auto& mutation : function_.plan().mutations) {
    if (mutation.data && mutation.slot == crossing.index) return with_history(primals_[mutation.primal], edge);
  }
  return with_history(slots[crossing.index], edge);
}

void ResultLinks::save(const std::vector<at::Tensor>& slots, std::vector<at::Tensor>&& residuals,
                       std::vector<at::Tensor>&& gradient_primals, std::vector<at::Tensor>&& generator_states) {
  if (nodes_.size() == 1) {
    return nodes_[0]->save(primals_, slots, std::move(residuals), std::move(gradient_primals),
                           std::move(generator_states));
  }
  for (size_t stage = 0; stage < nodes_.size(); ++stage) {
    if (!nodes_[stage]) continue;
    // Each stage keeps all of them, since its variants read different ones.
    std::vector<at::Tensor> read = residuals;
    std::vector<at::Tensor> starts = gradient_primals;
    for (const size_t crossing : function_.captured().gradient_crossings()) {
      starts.push_back(function_.starts_at(crossing, stage) ? start_of(crossing, stage, slots) : at::Tensor());
    }
    nodes_[stage]->save(primals_, slots, std::move(read), std::move(starts), std::vector<at::Tensor>(generator_states));
  }
}

}  // namespace diptych::detail
