#include "diptych/autodiff/output_analysis.h"

#include <ATen/EmptyTensor.h>
#include <ATen/FunctionalTensorWrapper.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/variable.h>

#include <map>

#include "diptych/base/check.h"
#include "diptych/graph/rewrite.h"
#include "diptych/ops/dispatch_keys.h"
#include "diptych/ops/tags.h"
#include "diptych/ops/trace_traits.h"
#include "diptych/trace/autograd_facts.h"
#include "diptych/trace/custom_function.h"
#include "diptych/trace/memory_overlap.h"

namespace diptych::detail {
namespace {

namespace ag = torch::autograd;

at::functionalization::FunctionalStorageImpl* functional_storage(const at::Tensor& tensor) {
  return static_cast<at::functionalization::FunctionalStorageImpl*>(tensor.storage().unsafeGetStorageImpl());
}

bool share_storage(const at::Tensor& a, const at::Tensor& b) { return functional_storage(a) == functional_storage(b); }

// Returns where the stand-in `tensor` lies, counted from the element at `origin`, if the tensor that its chain of views
// starts from is laid out as `start`. The stand-in's value in the trace may be laid out in another way once the storage
// has been written to.
Geometry geometry_in(const at::Tensor& tensor, const at::Tensor& start, int64_t origin) {
  const auto* wrapper = at::functionalization::impl::unsafeGetFunctionalWrapper(tensor);
  const BelowTraceGuard guard;
  const at::Tensor meta = at::functionalization::impl::apply_view_meta_sequence(start, wrapper->view_metas());
  return {meta.sizes().vec(), meta.strides().vec(), meta.storage_offset() - origin};
}

// Whether the storage of `real` holds all elements of `geometry`, whose offset counts from the first element of `real`.
bool holds(const at::Tensor& real, const Geometry& geometry) {
  const int64_t first = real.storage_offset() + geometry.offset;
  const auto end = at::detail::computeStorageNbytes(geometry.sizes, geometry.strides, real.itemsize(),
                                                    static_cast<size_t>(std::max<int64_t>(first, 0)));
  return first >= 0 && (real.storage().nbytes() == 0 || end <= real.storage().nbytes());
}

// Autograd remembers in which grad mode the user took a view.
bool was_taken_under_no_grad(const at::Tensor& tensor) {
  const auto* meta = tensor.is_view() ? ag::impl::get_view_autograd_meta(tensor) : nullptr;
  return meta != nullptr && meta->has_bw_view() && meta->get_creation_meta() == ag::CreationMeta::NO_GRAD_MODE &&
         meta->grad_fn_ == nullptr;
}

// Whether a view was taken in a Function; its gradient is then what the Function's backward says, and not that of the
// view. Autograd marks one of several results as it marks one of unbind's.
bool was_taken_in_a_function(const at::Tensor& tensor) {
  const auto* meta = tensor.is_view() ? ag::impl::get_view_autograd_meta(tensor) : nullptr;
  if (meta == nullptr || !meta->has_bw_view() || !tensor.requires_grad()) return false;
  const bool is_of_several = meta->get_creation_meta() == ag::CreationMeta::MULTI_OUTPUT_NODE &&
                             meta->grad_fn_ != nullptr && is_custom_function(*meta->grad_fn_);
  return is_of_several || meta->get_creation_meta() == ag::CreationMeta::IN_CUSTOM_FUNCTION;
}

// Whether a tensor's gradient flows on to its base. The gradient of a view on which the function called
// requires_grad_() goes no further, nor does that of a view of such a view.
bool is_view_with_history_of(const at::Tensor& tensor, const at::Tensor& base) {
  return autograd_base(tensor).is_same(base) && base.requires_grad();
}

class Analyzer {
 public:
  Analyzer(Recorder& recorder, const FlatResult& result, bool exact_outputs)
      : recorder_(recorder), result_(result), exact_outputs_(exact_outputs) {}

  OutputAnalysis run() {
    for (size_t i = 0; i < recorder_.primals().size(); ++i) find_mutation(i);
    for (size_t i = 0; i < result_.tensors.size(); ++i) {
      analysis_.slots.push_back({SlotKind::kOutput, result_.paths[i], {}, {}});
    }
    find_outputs_of_their_own();
    for (size_t i = 0; i < result_.tensors.size(); ++i) {
      if (plan().outputs.size() <= i) plan().outputs.emplace_back();
      plan_output(i);
    }
    add_mutated_slots();
    build_epilogue();
    for (size_t i = 0; i < analysis_.slots.size(); ++i) mark_differentiable(i);
    plan().output_paths = result_.paths;
    return std::move(analysis_);
  }

 private:
  ForwardPlan& plan() { return analysis_.plan; }

  void find_mutation(size_t index);
  void find_change_of_shape(size_t index);
  at::Tensor start_of(size_t primal) const;
  Geometry geometry_of(const at::Tensor& tensor, size_t primal) const;
  void find_outputs_of_their_own();
  void plan_output(size_t index);
  void check_is_no_part(size_t index) const;
  bool is_own_leaf(const at::Tensor& tensor) const;
  bool is_primal(const at::Tensor& tensor) const;
  bool plan_function_view(size_t index);
  bool plan_alias_of_primal(size_t index, Value value);
  bool plan_part_of_primal(size_t index);
  void check_strides_tell(size_t index) const;
  bool plan_alias_of_intermediate(size_t index, Value value);
  void plan_strided(size_t index, OutputPlan::Kind kind, size_t origin, Geometry geometry, std::string text);
  void plan_slot(size_t index, const at::Tensor& tensor);
  void regenerate(size_t index, Value value, ForwardPlan::EpilogueInput base, Value base_value, std::string text);
  void set_grad_modes(const at::Tensor& tensor, Value value, Value base);
  void add_mutated_slots();
  void build_epilogue();
  void mark_differentiable(size_t slot);
  /// Walks back from `value` through views to the first value for which `is_end` holds; returns none if there is none.
  template <class IsEnd>
  Value walk_back(Value value, const IsEnd& is_end) const;

  Recorder& recorder_;
  const FlatResult& result_;
  bool exact_outputs_;
  OutputAnalysis analysis_;
  std::map<Value, size_t> primal_of_value_;  // the value that a primal has after the call
  std::vector<size_t> mutated_;              // indices into plan().mutations that need a slot
  std::map<const c10::TensorImpl*, size_t> slot_of_base_;
  std::vector<Value> regenerated_;
  std::vector<Value> epilogue_values_;
};

template <class IsEnd>
Value Analyzer::walk_back(Value value, const IsEnd& is_end) const {
  while (value && !is_end(value)) {
    const Node* node = recorder_.graph().producer(value);
    if (node == nullptr || !has_tag(node->op, Tag::kView) || node->operands.empty()) return Value{};
    const auto* self = std::get_if<Value>(&node->operands[0]);
    value = self == nullptr ? Value{} : *self;
  }
  return value;
}

void Analyzer::find_mutation(size_t index) {
  const auto& primal = recorder_.primals()[index];
  if (primal.same_as) return;  // its mutation is the first one's
  if (primal.part_of) return find_change_of_shape(index);
  const Value now = recorder_.value_of(primal.stand_in);
  primal_of_value_.emplace(now, index);
  const bool was_differentiable = primal.edge.is_valid();
  const bool edge_changed = primal.stand_in.requires_grad() != was_differentiable ||
                            (was_differentiable && ag::impl::gradient_edge(primal.stand_in) != primal.edge);
  if (now == primal.value) {
    DIPTYCH_CHECK(!edge_changed,
                  "[capture] the function changes the requires_grad or the history of '{}' without changing its "
                  "values; call requires_grad_() or detach_() outside the function",
                  primal.slot.path);
    return;
  }
  DIPTYCH_CHECK(!edge_changed || !was_differentiable || !primal.stand_in.is_leaf(),
                "[capture] the function detaches '{}' from its history and changes its values, which a graph can't do "
                "to a caller's tensor; call detach_() outside the function",
                primal.slot.path);
  auto* wrapper = at::functionalization::impl::unsafeGetFunctionalWrapper(primal.stand_in);
  MutationPlan mutation;
  mutation.primal = index;
  mutation.data = wrapper->has_data_mutation();
  mutation.under_no_grad = !edge_changed;
  mutation.partly_unseen = edge_changed && recorder_.views().has_unseen_write(primal.stand_in);
  mutation.counts = edge_changed || primal.counts_changes();
  if (wrapper->has_metadata_mutation()) {
    DIPTYCH_CHECK(!was_differentiable || !primal.real.is_leaf(),
                  "[capture] the function changes the shape of '{}' in place, but it is a leaf that requires grad and "
                  "its gradient has its original shape; pass a view of it",
                  primal.slot.path);
    mutation.geometry = geometry_in(primal.stand_in, start_of(index), primal.offset());
  }
  DIPTYCH_CHECK(mutation.data || mutation.geometry,
                "[capture] the function gives '{}' another tensor's data (set_data); copy_ into it instead",
                primal.slot.path);
  if (mutation.data) {
    DIPTYCH_CHECK(!has_overlap(primal.real.sizes(), primal.real.strides()),
                  "[capture] '{}' is changed in place, but several of its elements share one memory location (it is "
                  "expanded, or its strides overlap); pass a clone of it",
                  primal.slot.path);
    DIPTYCH_CHECK(
        mutation.geometry || primal.stand_in.sizes() == primal.real.sizes(),
        "[capture] the function resizes '{}' from [{}] to [{}], as an operator with out= of another size does; "
        "pass out= of the result's size, or take the result without out=",
        primal.slot.path, fmt::join(primal.real.sizes(), ","), fmt::join(primal.stand_in.sizes(), ","));
    mutated_.push_back(plan().mutations.size());
  }
  plan().mutations.push_back(std::move(mutation));
}

// A primal that is a view of another primal can only change its own shape.
void Analyzer::find_change_of_shape(size_t index) {
  const auto& primal = recorder_.primals()[index];
  recorder_.value_of(primal.stand_in);
  if (!at::functionalization::impl::unsafeGetFunctionalWrapper(primal.stand_in)->has_metadata_mutation()) return;
  MutationPlan mutation;
  mutation.primal = index;
  mutation.geometry = geometry_in(primal.stand_in, start_of(index), primal.offset());
  plan().mutations.push_back(std::move(mutation));
}

// Returns what the chains of views of a primal's stand-in start from.
at::Tensor Analyzer::start_of(size_t primal) const {
  for (const auto& merged : recorder_.primal_table().merged_bases()) {
    if (merged.holds(primal)) return as_fake(merged.base)->meta();
  }
  return meta_like(recorder_.primals()[primal].real);
}

// Returns where an alias of a primal lies, counted from the primal's first element.
Geometry Analyzer::geometry_of(const at::Tensor& tensor, size_t primal) const {
  return geometry_in(tensor, start_of(primal), recorder_.primals()[primal].offset());
}

// Outputs that are not views come first: a view of one of them is made from its slot.
void Analyzer::find_outputs_of_their_own() {
  if (exact_outputs_) return;
  for (size_t i = 0; i < result_.tensors.size(); ++i) {
    const at::Tensor& tensor = result_.tensors[i];
    if (!tensor.is_view()) slot_of_base_.emplace(tensor.unsafeGetTensorImpl(), i);
  }
}

// A view of a tensor that requires grad requires it too, even one that was taken under no_grad and has no history.
bool Analyzer::is_own_leaf(const at::Tensor& tensor) const {
  if (tensor.is_view() && tensor._base().requires_grad()) return false;
  return tensor.requires_grad() && tensor.is_leaf() && !is_primal(tensor);
}

bool Analyzer::is_primal(const at::Tensor& tensor) const {
  const auto& primals = recorder_.primals();
  return std::any_of(primals.begin(), primals.end(),
                     [&](const auto& primal) { return primal.stand_in.is_same(tensor); });
}

void Analyzer::plan_output(size_t index) {
  const at::Tensor& tensor = result_.tensors[index];
  OutputPlan& output = plan().outputs[index];
  output.requires_grad = tensor.requires_grad();
  output.is_own_leaf = tensor.is_view() && is_own_leaf(tensor);
  output.retains_grad = tensor.retains_grad() && !tensor.is_leaf();
  const Value value = recorder_.value_of(tensor);
  if (exact_outputs_) return plan_slot(index, tensor);
  check_is_no_part(index);
  for (size_t earlier = 0; earlier < index; ++earlier) {
    if (!result_.tensors[earlier].is_same(tensor)) continue;
    output.kind = OutputPlan::Kind::kSame;
    output.index = earlier;
    output.alias_text = "is output " + result_.paths[earlier];
    return;
  }
  if (plan_function_view(index) || plan_alias_of_primal(index, value) || plan_alias_of_intermediate(index, value))
    return;
  plan_slot(index, tensor);
}

// A part is a copy, and in eager a view: whoever has both could tell. See Note [Parts].
void Analyzer::check_is_no_part(size_t index) const {
  const at::Tensor& tensor = result_.tensors[index];
  const auto shows = [&](const at::Tensor& other) {
    return other.defined() && !share_storage(other, tensor) && recorder_.parts().relates(tensor, other);
  };
  const auto& primals = recorder_.primals();
  DIPTYCH_CHECK(
      std::none_of(result_.tensors.begin(), result_.tensors.end(), shows) &&
          std::none_of(primals.begin(), primals.end(), [&](const auto& primal) { return shows(primal.stand_in); }),
      "[trace] '{}' is a part that an index which is a tensor has taken, in eager a view of what the caller "
      "has, too; return clone() of it, or let the capture ask for values (path_limit)",
      result_.paths[index]);
}

// The graph makes the view, and its base is found by the storage. If nobody has the base, the output need not be a
// view.
bool Analyzer::plan_function_view(size_t index) {
  const at::Tensor& tensor = result_.tensors[index];
  if (!was_taken_in_a_function(tensor)) return false;
  plan_slot(index, tensor);
  for (size_t i = 0; i < recorder_.primals().size(); ++i) {
    if (!share_storage(recorder_.primals()[i].stand_in, tensor)) continue;
    plan().function_views.push_back({index, {true, i}});
    return true;
  }
  const auto base = slot_of_base_.find(autograd_base(tensor).unsafeGetTensorImpl());
  if (base != slot_of_base_.end()) plan().function_views.push_back({index, {false, base->second}});
  return true;
}

bool Analyzer::plan_alias_of_primal(size_t index, Value value) {
  const at::Tensor& tensor = result_.tensors[index];
  OutputPlan& output = plan().outputs[index];
  const bool has_history = output.requires_grad && !output.is_own_leaf;
  for (size_t i = 0; i < recorder_.primals().size(); ++i) {
    if (!recorder_.primals()[i].stand_in.is_same(tensor)) continue;
    output.kind = OutputPlan::Kind::kPrimal;
    output.index = i;
    output.alias_text = "is " + recorder_.primals()[i].slot.path;
    return true;
  }
  const Value end = walk_back(value, [&](Value v) { return primal_of_value_.count(v) != 0; });
  // A view as another dtype is not a view to autograd, and strides can't describe it.
  const bool is_view =
      tensor.is_view() || (end && recorder_.graph().meta(end).dtype != recorder_.graph().meta(value).dtype);
  if (!end || (end != value && !is_view)) return plan_part_of_primal(index);
  const auto found = primal_of_value_.find(end);
  const auto& primal = recorder_.primals()[found->second];
  // A view of a detached alias that was given a history has its history from that alias.
  if (has_history && !is_view_with_history_of(tensor, primal.stand_in)) return plan_part_of_primal(index);
  const auto& path = primal.slot.path;
  if (end == value) {
    if (has_history) return plan_part_of_primal(index);
    output.kind = OutputPlan::Kind::kPrimalData;
    output.index = found->second;
    output.alias_text = "shares the data of " + path;
    return true;
  }
  // The parts of a tensor that is lazily conjugated can't be viewed, whatever has been written to it.
  const auto is_read_resolved = [&](Value v) {
    const Node* const node = recorder_.graph().producer(v);
    return node != nullptr && trace_trait(node->op) == TraceTrait::kReadsResolved;
  };
  if (primal.real.is_conj() && walk_back(value, is_read_resolved)) check_strides_tell(index);
  regenerate(index, value, {true, found->second}, end, "is a view of " + path);
  return true;
}

// An alias that no chain of views connects with the primal as it is after the call: the primal was merged with others,
// or changed its shape after the view was taken.
bool Analyzer::plan_part_of_primal(size_t index) {
  const at::Tensor& tensor = result_.tensors[index];
  const auto shares = [&](const auto& primal) { return share_storage(primal.stand_in, tensor); };
  if (std::none_of(recorder_.primals().begin(), recorder_.primals().end(), shares)) return false;
  check_strides_tell(index);
  const bool has_history = tensor.requires_grad() && !plan().outputs[index].is_own_leaf;
  std::optional<size_t> sharing;
  std::optional<size_t> base;  // the primal that its history comes from
  for (size_t i = 0; i < recorder_.primals().size() && !base; ++i) {
    const at::Tensor& stand_in = recorder_.primals()[i].stand_in;
    if (!share_storage(stand_in, tensor)) continue;
    // Of tensors that share memory under several storages, one whose own holds the view, best that which was viewed.
    const bool is_viewed = recorder_.primal_table().behind(tensor) == &recorder_.primals()[i];
    if ((!sharing || is_viewed) && holds(recorder_.primals()[i].real, geometry_of(tensor, i))) sharing = i;
    if (has_history ? is_view_with_history_of(tensor, stand_in) : stand_in.is_same(autograd_base(tensor))) base = i;
  }
  if (!base && !sharing) return false;
  const size_t origin = base ? *base : *sharing;
  const auto& primal = recorder_.primals()[origin];
  if (!base && has_history) {
    DIPTYCH_CHECK(!at::functionalization::impl::unsafeGetFunctionalWrapper(tensor)->has_data_mutation(),
                  "[capture] output '{}' shares the memory of '{}', which is changed in place, and has its own "
                  "history; return a clone of the output",
                  result_.paths[index], primal.slot.path);
    return false;
  }
  plan_strided(index, OutputPlan::Kind::kOfPrimal, origin, geometry_of(tensor, origin),
               "is a view of the storage of " + primal.slot.path);
  return true;
}

// Strides say where elements lie, and not what they are read as.
void Analyzer::check_strides_tell(size_t index) const {
  const at::Tensor& tensor = result_.tensors[index];
  const auto& steps = at::functionalization::impl::unsafeGetFunctionalWrapper(tensor)->view_metas();
  const bool is_read_otherwise =
      std::any_of(steps.begin(), steps.end(), [&](const auto& step) { return recorder_.views().reinterprets(step); });
  DIPTYCH_CHECK(!is_read_otherwise,
                "[capture] output '{}' views the memory of another tensor as conjugates or as another dtype, and that "
                "tensor was changed or shares its memory with others, so the view can't be taken again outside the "
                "graph; return a clone of the output",
                result_.paths[index]);
}

void Analyzer::plan_strided(size_t index, OutputPlan::Kind kind, size_t origin, Geometry geometry, std::string text) {
  const at::Tensor& tensor = result_.tensors[index];
  OutputPlan& output = plan().outputs[index];
  output.kind = kind;
  output.index = origin;
  output.geometry = std::move(geometry);
  output.is_view = tensor.is_view();
  output.under_no_grad = was_taken_under_no_grad(tensor);
  const auto& steps = at::functionalization::impl::unsafeGetFunctionalWrapper(tensor)->view_metas();
  const bool is_cut_off = std::any_of(steps.begin(), steps.end(),
                                      [&](const auto& step) { return recorder_.views().was_under_no_grad(step); });
  DIPTYCH_CHECK(!tensor.requires_grad() || output.under_no_grad || !is_cut_off,
                "[capture] output '{}' is a view of a view that was taken under no_grad, and the base shares its "
                "storage with other tensors or has changed its shape; return a clone of the output",
                result_.paths[index]);
  output.alias_text = std::move(text);
}

bool Analyzer::plan_alias_of_intermediate(size_t index, Value value) {
  const at::Tensor& tensor = result_.tensors[index];
  if (!tensor.is_view()) return false;
  const at::Tensor base(tensor._base());
  if (!recorder_.owns(base)) return false;
  if (!share_storage(tensor, base)) return false;
  const OutputPlan& output = plan().outputs[index];
  if (output.requires_grad && !output.is_own_leaf && !is_view_with_history_of(tensor, base)) return false;
  const Value base_value = recorder_.value_of(base);
  const auto [slot, is_new] = slot_of_base_.emplace(base.unsafeGetTensorImpl(), index);
  if (is_new) plan_slot(index, base);
  const bool is_output = result_.tensors[slot->second].is_same(base);
  std::string text = is_output ? "is a view of output " + result_.paths[slot->second]
                               : "is a view of an intermediate, which is in slot " + result_.paths[slot->second];
  if (base_value != value && walk_back(value, [&](Value v) { return v == base_value; })) {
    regenerate(index, value, {false, slot->second}, base_value, std::move(text));
    return true;
  }
  // The base changed its shape after the view was taken.
  check_strides_tell(index);
  const at::Tensor& start = as_fake(functional_storage(base)->base())->meta();
  plan_strided(index, OutputPlan::Kind::kOfSlot, slot->second,
               geometry_in(tensor, start, as_fake(base)->storage_offset()), std::move(text));
  return true;
}

void Analyzer::plan_slot(size_t index, const at::Tensor& tensor) {
  auto& slot = analysis_.slots[index];
  slot.tensor = tensor;
  slot.value = recorder_.value_of(tensor);
}

void Analyzer::regenerate(size_t index, Value value, ForwardPlan::EpilogueInput base, Value base_value,
                          std::string text) {
  OutputPlan& output = plan().outputs[index];
  output.kind = OutputPlan::Kind::kRegenerated;
  set_grad_modes(result_.tensors[index], value, base_value);
  output.index = regenerated_.size();
  output.alias_text = std::move(text);
  regenerated_.push_back(value);
  if (std::find(epilogue_values_.begin(), epilogue_values_.end(), base_value) != epilogue_values_.end()) return;
  epilogue_values_.push_back(base_value);
  plan().epilogue_inputs.push_back(base);
}

// Each step of the chain is taken again in the grad mode in which the user took it.
void Analyzer::set_grad_modes(const at::Tensor& tensor, Value value, Value base) {
  if (tensor.is_view()) recorder_.graph().set_grad_enabled(value, !was_taken_under_no_grad(tensor));
  const auto& steps = at::functionalization::impl::unsafeGetFunctionalWrapper(tensor)->view_metas();
  for (auto step = steps.rbegin(); step != steps.rend() && value != base; ++step) {
    if (recorder_.views().was_under_no_grad(*step)) recorder_.graph().set_grad_enabled(value, false);
    value = std::get<Value>(recorder_.graph().producer(value)->operands[0]);
  }
}

void Analyzer::add_mutated_slots() {
  for (const size_t index : mutated_) {
    auto& mutation = plan().mutations[index];
    const auto& primal = recorder_.primals()[mutation.primal];
    mutation.slot = analysis_.slots.size();
    analysis_.slots.push_back(
        {SlotKind::kMutated, primal.slot.path, primal.stand_in, recorder_.value_of(primal.stand_in)});
  }
}

void Analyzer::build_epilogue() {
  std::vector<Slot> inputs;
  for (const auto& input : plan().epilogue_inputs) {
    inputs.push_back(input.is_primal ? Slot{SlotKind::kArgument, recorder_.primals()[input.index].slot.path}
                                     : Slot{SlotKind::kOutput, analysis_.slots[input.index].path});
  }
  std::vector<Slot> outputs;
  for (const auto& output : plan().outputs) {
    if (output.kind != OutputPlan::Kind::kRegenerated) continue;
    outputs.push_back({SlotKind::kOutput, fmt::format("view.{}", outputs.size())});
  }
  plan().epilogue =
      extract(recorder_.graph(), "epilogue", epilogue_values_, std::move(inputs), regenerated_, std::move(outputs));
}

void Analyzer::mark_differentiable(size_t index) {
  const auto& slot = analysis_.slots[index];
  if (!slot.tensor.defined() || !slot.tensor.requires_grad()) return;
  // A leaf that is passed through, as exact outputs are, gets its gradient here; one that the function made does not.
  if (slot.kind == SlotKind::kOutput && is_own_leaf(slot.tensor)) return plan().fresh_leaves.push_back(index);
  // A view that was taken under no_grad requires grad by its base and has no history.
  if (slot.kind == SlotKind::kOutput && slot.tensor.is_view() && slot.tensor.is_leaf() &&
      !(exact_outputs_ && is_primal(slot.tensor))) {
    return;
  }
  if (slot.kind == SlotKind::kMutated) {
    for (const auto& mutation : plan().mutations) {
      if (mutation.data && mutation.slot == index && mutation.under_no_grad) return;
    }
  }
  plan().differentiable.push_back(index);
}

}  // namespace

OutputAnalysis analyze_outputs(Recorder& recorder, const FlatResult& result, bool exact_outputs) {
  return Analyzer(recorder, result, exact_outputs).run();
}

}  // namespace diptych::detail
