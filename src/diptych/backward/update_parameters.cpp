#include "diptych/backward/update_parameters.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <unordered_set>

#include "diptych/backward/update_rules.h"
#include "diptych/base/check.h"
#include "diptych/graph/hop_attributes.h"
#include "diptych/interpreter/hop_rules.h"
#include "diptych/ops/hop_schemas.h"
#include "diptych/trace/memory_order.h"
#include "diptych/trace/recorder.h"

namespace diptych::detail {
namespace {

/// A parameter's share of an update.
struct Share {
  const UpdatedParameter* plan;
  at::Tensor parameter, gradient;
  c10::ArrayRef<at::Tensor> states;
};

// Kernels go through memory from the first element to the last, whatever the strides are.
at::Tensor dense_like(const at::Tensor& parameter) {
  return parameter.is_non_overlapping_and_dense() ? parameter : at::empty_like(parameter, at::MemoryFormat::Contiguous);
}

/// Replaces tensors that are not laid out like their parameter by copies for a kernel, and copies what it wrote back.
class Layouts {
 public:
  at::Tensor read(const at::Tensor& tensor, const at::Tensor& like) const {
    if (has_layout(tensor, like.strides())) return tensor;
    return at::empty_like(like).copy_(tensor);
  }
  at::Tensor write(const at::Tensor& tensor, const at::Tensor& like) {
    if (has_layout(tensor, like.strides())) return tensor;
    copies_.emplace_back(tensor, read(tensor, like));
    return copies_.back().second;
  }
  void put_back() const {
    for (const auto& [tensor, copy] : copies_) tensor.copy_(copy);
  }

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;
};

// Kernels read and write as many elements as the parameter has.
bool is_like(const at::Tensor& tensor, const at::Tensor& parameter) {
  return tensor.layout() == at::kStrided && tensor.sizes() == parameter.sizes() && tensor.dtype() == parameter.dtype();
}

class Update {
 public:
  Update(const UpdatePlan& plan, UpdateTensors& tensors)
      : plan_(plan), rule_(find_update_rule(plan.rule)), steps_(tensors.steps), rates_(tensors.learning_rates) {
    size_t next_state = 0;
    for (size_t i = 0; i < plan.parameters.size(); ++i) {
      const UpdatedParameter& updated = plan.parameters[i];
      const size_t count = rule_.num_states(plan.options[static_cast<size_t>(updated.group)]);
      const auto states = c10::ArrayRef<at::Tensor>(tensors.states).slice(next_state, count);
      next_state += count;
      if (!updated.maybe_undefined.empty() && EagerRun::current().is_undefined(updated.maybe_undefined)) continue;
      shares_.push_back({&updated, tensors.parameters[i], std::move(tensors.gradients[i]), states});
    }
  }

  void run() {
    check();
    part_from_what_is_written();
    Layouts layouts;
    std::vector<UpdateBatch> batches;
    for (size_t i = 0; i < shares_.size(); ++i) {
      if (i == 0 || !are_alike(shares_[i - 1], shares_[i])) batches.push_back(new_batch(shares_[i]));
      add_to(batches.back(), shares_[i], layouts);
    }
    update_in_parallel(rule_, batches);
    layouts.put_back();
    for (const Share& share : shares_) {
      int64_t& step = step_of(share);
      step = std::max<int64_t>(step, 0) + 1;
      share.parameter.unsafeGetTensorImpl()->bump_version();
      for (const at::Tensor& state : share.states) state.unsafeGetTensorImpl()->bump_version();
    }
  }

 private:
  void check() const {
    for (const Share& share : shares_) {
      DIPTYCH_ASSERT(is_like(share.gradient, share.parameter), "a gradient does not match its parameter");
      for (const at::Tensor& state : share.states) {
        DIPTYCH_ASSERT(is_like(state, share.parameter), "an optimizer's state does not match its parameter");
      }
    }
  }

  int64_t& step_of(const Share& share) const { return steps_.mutable_data_ptr<int64_t>()[share.plan->position]; }

  // Copies a gradient that shares memory with what the update writes: it may be another parameter, which some node
  // saved.
  void part_from_what_is_written() {
    std::unordered_set<const c10::StorageImpl*> written;
    for (const Share& share : shares_) {
      written.insert(share.parameter.storage().unsafeGetStorageImpl());
      for (const at::Tensor& state : share.states) written.insert(state.storage().unsafeGetStorageImpl());
    }
    for (Share& share : shares_) {
      if (written.count(share.gradient.storage().unsafeGetStorageImpl()) != 0) share.gradient = share.gradient.clone();
    }
  }

  bool are_alike(const Share& a, const Share& b) const {
    return a.plan->group == b.plan->group && step_of(a) == step_of(b) &&
           a.parameter.scalar_type() == b.parameter.scalar_type();
  }

  UpdateBatch new_batch(const Share& share) const {
    const auto group = static_cast<size_t>(share.plan->group);
    UpdateBatch batch;
    batch.options = &plan_.options[group];
    batch.states.resize(rule_.num_states(*batch.options));
    batch.step = std::max<int64_t>(step_of(share), 0) + 1;
    batch.is_first = step_of(share) == kNoState;
    batch.learning_rate = rates_.const_data_ptr<double>()[group];
    return batch;
  }

  static void add_to(UpdateBatch& batch, const Share& share, Layouts& layouts) {
    const at::Tensor like = dense_like(share.parameter);
    batch.parameters.push_back(layouts.write(share.parameter, like));
    batch.gradients.push_back(layouts.read(share.gradient, like));
    for (size_t k = 0; k < share.states.size(); ++k) {
      batch.states[k].push_back(layouts.write(share.states[k], like));
    }
  }

  const UpdatePlan& plan_;
  const UpdateRule& rule_;
  at::Tensor steps_, rates_;
  std::vector<Share> shares_;
};

void run_update(const UpdatePlan& plan, UpdateTensors& tensors) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  Update(plan, tensors).run();
}

// The groups, as the schema has them.
enum Group : size_t { kParameters, kGradients, kStates, kSteps, kRates };

UpdatePlan plan_of(const Node& node) {
  const auto attributes = HopAttributes::of(node);
  UpdatePlan plan{std::string(attributes.at("rule").toStringRef()), {}, {}};
  const size_t num_options = option_names(plan.rule).size();
  const auto numbers = attributes.at("options").toDoubleVector();
  for (auto next = numbers.begin(); next != numbers.end(); next += static_cast<std::ptrdiff_t>(num_options)) {
    plan.options.emplace_back(next, next + static_cast<std::ptrdiff_t>(num_options));
  }
  const auto places = attributes.integers("places");
  auto maybe_undefined = decode_maybe_undefined(attributes.integers("maybe_undefined"));
  for (size_t i = 0; i < maybe_undefined.size(); ++i) {
    plan.parameters.push_back({places[2 * i], places[2 * i + 1], std::move(maybe_undefined[i])});
  }
  return plan;
}

// The node has no results, so passes know that it is kept for its effect.
Node make_node(const UpdatePlan& plan, const UpdateTensors& tensors, Recorder& recorder) {
  const auto values = [&](const std::vector<at::Tensor>& list) {
    ValueList values;
    for (const at::Tensor& tensor : list) values.push_back(recorder.value_of(recorder.stand_in(tensor)));
    return values;
  };
  c10::List<double> options;
  for (const auto& group : plan.options) {
    for (const double option : group) options.push_back(option);
  }
  c10::List<int64_t> places;
  std::vector<MaybeUndefined> maybe_undefined;
  for (const UpdatedParameter& parameter : plan.parameters) {
    places.push_back(parameter.group);
    places.push_back(parameter.position);
    maybe_undefined.push_back(parameter.maybe_undefined);
  }
  return make_hop_node(update_parameters_schema(),
                       {values(tensors.parameters),
                        values(tensors.gradients),
                        values(tensors.states),
                        {recorder.value_of(tensors.steps)},
                        {recorder.value_of(tensors.learning_rates)}},
                       {update_parameters_schema(),
                        {{"rule", plan.rule},
                         {"options", options},
                         {"places", places},
                         {"maybe_undefined", encode_maybe_undefined(maybe_undefined)}}});
}

}  // namespace

const HopSchema& update_parameters_schema() {
  static const HopSchema* const known = [] {
    const HopSchema* const added = add_hop_schema(
        "update_parameters(Tensor[] parameters, Tensor[] gradients, Tensor[] states, Tensor steps, Tensor "
        "learning_rates, "
        "str rule, float[] options, int[] places, int[] maybe_undefined)",
        {});
    register_interpreter_rule(*added, [](const Node& node) -> HopKernel {
      return [plan = plan_of(node)](std::vector<c10::IValue>&& operands, const RunOptions& /*options*/) {
        UpdateTensors tensors{take_tensor_list(operands[kParameters]), take_tensor_list(operands[kGradients]),
                              take_tensor_list(operands[kStates]), operands[kSteps].toTensor(),
                              operands[kRates].toTensor()};
        run_update(plan, tensors);
        return std::vector<at::Tensor>();
      };
    });
    return added;
  }();
  return *known;
}

const std::vector<std::string_view>& option_names(std::string_view rule) { return find_update_rule(rule).option_names; }

size_t num_states(std::string_view rule, const std::vector<double>& options) {
  return find_update_rule(rule).num_states(options);
}

void update_parameters(const UpdatePlan& plan, UpdateTensors tensors) {
  if (!is_tracing()) return run_update(plan, tensors);
  Recorder& recorder = *Recorder::current();
  recorder.record_hop(make_node(plan, tensors, recorder), {});
}

}  // namespace diptych::detail
