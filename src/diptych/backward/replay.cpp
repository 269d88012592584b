#include "diptych/backward/replay.h"

#include <ATen/ops/add.h>
#include <fmt/ranges.h>

#include "diptych/backward/current_node.h"
#include "diptych/base/check.h"
#include "diptych/trace/hollow_tensor.h"
#include "diptych/trace/node_hooks.h"
#include "diptych/trace/scope.h"

namespace diptych::detail {

namespace ag = torch::autograd;
namespace ca = torch::dynamo::autograd;

namespace {

// LibTorch's own nodes bind their function once in a process, under the name that they call it by.
std::map<std::string, ca::functional_apply_t>& functions_of_libtorch() {
  static auto* const functions = new std::map<std::string, ca::functional_apply_t>;
  return *functions;
}

std::string short_name(const ag::Node& node) {
  const std::string name = node.name();
  constexpr std::string_view kNamespace = "torch::autograd::";
  return name.rfind(kNamespace, 0) == 0 ? name.substr(kNamespace.size()) : name;
}

std::vector<bool> defined(const ag::variable_list& list) {
  std::vector<bool> flags;
  for (const at::Tensor& tensor : list) flags.push_back(tensor.defined());
  return flags;
}

}  // namespace

// A user's node binds its function each time, and calls it by the name that this returns.
std::string Replay::bind(const std::string& name, ca::functional_apply_t function, bool is_custom, bool is_traceable) {
  if (!is_custom) {
    functions_of_libtorch().insert_or_assign(name, std::move(function));
    return name;
  }
  custom_ = {std::move(function), is_traceable};
  return "the user's";
}

ag::variable_list Replay::call(const std::string& name, const ag::variable_list& inputs,
                               const std::vector<c10::IValue>& arguments) {
  // LibTorch calls validate_outputs without binding it; check_outputs() does its work after the replay.
  if (name == "validate_outputs") return inputs;
  return guarded(
      [&]() -> ag::variable_list {
        if (custom_.apply) {
          const Custom custom = std::exchange(custom_, {});
          return custom.is_traceable ? custom.apply(inputs, arguments) : run_node_as_it_is(inputs);
        }
        const auto found = functions_of_libtorch().find(name);
        DIPTYCH_CHECK(found != functions_of_libtorch().end(),
                      "[backward] {} has registered itself with another capture of backwards in this process", name);
        return found->second(inputs, arguments);
      },
      ag::variable_list(num_outputs()));
}

void Replay::add_inputs() {
  auto& tensors = contents_.compiler().tensor_args;
  for (size_t i = 0; i < tensors.inputs.size(); ++i) {
    const size_t owner = contents_.owner_of_tensor(i);
    const std::string path = fmt::format("{}.{}.{}", short_name(*calls_[owner].node), owner, i);
    const at::Tensor& tensor = tensors.inputs[i];
    const int64_t* place = sizes_.data() + contents_.place_of_tensor(i);
    const at::IntArrayRef sizes(place, tensor.dim()), strides(place + tensor.dim(), tensor.dim());
    const bool is_as_it_is = sizes == tensor.sizes() && strides == tensor.strides();
    at::Tensor& stand_in = tensors.lookup(tensor).proxy_tensor;
    stand_in =
        recorder_.add_input(is_as_it_is ? tensor : hollow_like(tensor, sizes, strides), {SlotKind::kArgument, path});
    if (tensor.requires_grad()) stand_in.set_requires_grad(true);  // some formulas ask what they saved
  }
  for (const auto& [path, tensor] : contents_.ending_inputs()) {
    ending_inputs_.push_back(recorder_.add_input(tensor, {SlotKind::kArgument, path}));
  }
}

void Replay::read_input_metadata() {
  for (size_t i = 0; i < calls_.size(); ++i) {
    if (!calls_[i].needed) continue;
    size_t next = contents_.place_of_edges(i);
    for (const ag::Edge& edge : calls_[i].node->next_edges()) {
      if (!edge.is_valid()) continue;
      const ag::InputMetadata& known = edge.function->input_metadata(edge.input_nr);
      ag::SymIntSmallVec sizes;
      for (size_t d = 0; d < known.shape_as_dim_vector().size(); ++d) {
        sizes.emplace_back(sizes_[next++]);
      }
      expected_.try_emplace({edge.function.get(), edge.input_nr}, known.options(), std::move(sizes),
                            known.is_tensor_subclass(), known.is_nested_tensor(), known.grad_dtype());
    }
  }
}

TensorMeta Replay::meta_of_result(EagerStage stage, const ag::variable_list& inputs, size_t index) const {
  const bool is_around_node = stage != EagerStage::kNode && stage != EagerStage::kBareNode;
  if (is_around_node && inputs[index].defined()) {
    TensorMeta meta = TensorMeta::of(inputs[index]);
    if (!inputs[index].is_non_overlapping_and_dense()) meta.strides = contiguous_strides(meta.sizes);
    return meta;
  }
  const ag::Node& node = *calls_[current_].node;
  const bool is_input = stage == EagerStage::kTensorHooks || stage == EagerStage::kPreHooks;
  const ag::Edge edge = is_input ? ag::Edge() : node.next_edge(index);
  const ag::InputMetadata& known = is_input ? expected_.at({&node, static_cast<uint32_t>(index)})
                                            : expected_.at({edge.function.get(), edge.input_nr});
  TensorMeta meta;
  meta.dtype = c10::typeMetaToScalarType(known.dtype());
  meta.device = known.device();
  for (const c10::SymInt& size : known.shape_as_dim_vector()) meta.sizes.push_back(size.expect_int());
  meta.strides = contiguous_strides(meta.sizes);
  return meta;
}

ag::variable_list Replay::eager(EagerStage stage, const ag::variable_list& inputs, const std::vector<bool>& is_wanted) {
  EagerCall call{current_, stage, {}, {}, is_wanted, num_numbers_};
  std::vector<Value> operands;
  for (const at::Tensor& input : inputs) {
    call.is_given.push_back(input.defined());
    if (!input.defined()) continue;
    operands.push_back(recorder_.value_of(recorder_.stand_in(input)));
    call.maybe_undefined.push_back(maybe_undefined_.of(input));
  }
  std::vector<TensorMeta> metas;
  for (size_t i = 0; i < is_wanted.size(); ++i) {
    if (is_wanted[i]) metas.push_back(meta_of_result(stage, inputs, i));
  }
  const auto made = recorder_.record_hop(make_eager_node(call, operands), metas);
  ag::variable_list results(is_wanted.size());
  size_t next = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!is_wanted[i]) continue;
    results[i] = made[next++];
    maybe_undefined_.set(results[i], {num_numbers_++});
  }
  return results;
}

std::vector<bool> Replay::wanted_outputs() const {
  const ag::Node& node = *calls_[current_].node;
  std::vector<bool> wanted;
  for (size_t i = 0; i < node.num_outputs(); ++i) {
    wanted.push_back(node.next_edge(i).is_valid() && node.task_should_compute_output(i));
  }
  return wanted;
}

// Returns the graph that hooks are, if they are nothing more. They may see None in place of what turns out undefined.
std::shared_ptr<const HookGraph> Replay::graph_of_hooks(EagerStage stage, const ag::variable_list& gradients) {
  if (hook_mode_ == HookMode::kNone || c10::GradMode::is_enabled()) return nullptr;
  const auto may_be_missing = [&](const at::Tensor& gradient) { return !maybe_undefined_.of(gradient).empty(); };
  if (std::any_of(gradients.begin(), gradients.end(), may_be_missing)) return nullptr;
  const size_t num_warnings = warnings_.size();
  auto graph = detail::graph_of_hooks(*calls_[current_].node, stage, gradients);
  if (warnings_.size() > num_warnings) {  // which the graph would not repeat
    warnings_.forget_after(num_warnings);
    return nullptr;
  }
  return graph == nullptr || (hook_mode_ == HookMode::kConstant && !graph->is_constant) ? nullptr : graph;
}

at::Tensor Replay::read_by_hooks(const at::Tensor& tensor) {
  const auto known =
      std::find_if(read_.begin(), read_.end(), [&](const at::Tensor& one) { return one.is_same(tensor); });
  if (known != read_.end()) return stand_ins_of_read_[static_cast<size_t>(known - read_.begin())];
  stand_ins_of_read_.push_back(
      recorder_.add_input(tensor, {SlotKind::kFreeVariable, fmt::format("hooks.{}", read_.size())}));
  read_.push_back(tensor);
  return stand_ins_of_read_.back();
}

// Records a stage of hooks; the first `num_results` of the gradients are what it returns.
ag::variable_list Replay::run_hooks(EagerStage stage, const ag::variable_list& gradients, size_t num_results) {
  const auto is_given = defined(gradients);
  const std::vector<bool> is_wanted(is_given.begin(), is_given.begin() + static_cast<std::ptrdiff_t>(num_results));
  const auto graph = graph_of_hooks(stage, gradients);
  if (graph == nullptr) {
    runs_user_code_ = true;
    return eager(stage, gradients, is_wanted);
  }
  ag::variable_list inputs;
  for (const at::Tensor& gradient : gradients) {
    if (gradient.defined()) inputs.push_back(recorder_.stand_in(gradient));
  }
  for (const at::Tensor& tensor : graph->read) inputs.push_back(read_by_hooks(tensor));
  auto made = graph->record(std::move(inputs));
  hooks_.push_back({current_, stage, graph});
  ag::variable_list results(num_results);
  size_t next = 0;
  for (size_t i = 0; i < num_results; ++i) {
    if (is_wanted[i]) results[i] = made[next++];
  }
  return results;
}

// Records the bare node: its hooks have graph nodes of their own around it.
ag::variable_list Replay::run_node_as_it_is(const ag::variable_list& inputs) {
  runs_user_code_ = true;
  return eager(EagerStage::kBareNode, inputs, wanted_outputs());
}

void Replay::check_outputs(ag::variable_list& outputs) {
  const ag::Node& node = *calls_[current_].node;
  std::vector<std::optional<ag::InputMetadata>> expected;
  for (const ag::Edge& edge : node.next_edges()) {
    const auto found = expected_.find({edge.function.get(), edge.input_nr});
    expected.push_back(found == expected_.end() ? std::nullopt : std::optional(found->second));
  }
  validate_outputs_of(node, expected, outputs);
}

ag::variable_list Replay::apply(const ag::variable_list& inputs) {
  std::vector<std::optional<c10::SymInt>> sizes;
  const auto [begin, end] = contents_.places_of_node(current_);
  for (size_t i = begin; i < end; ++i) sizes.emplace_back(sizes_[i]);
  ca::TraceState state(std::move(sizes), 0);
  const auto& call = contents_.compiler().node_calls.lookup(calls_[current_].node);
  contents_.compiler().lifted_ivalue_args.next = contents_.first_lifted(current_);
  custom_ = {};
  ca::SwapSavedVariables saved(contents_.compiler(), state, reinterpret_cast<PyObject*>(this), call);
  const ag::variable_list outputs = with_stand_ins(saved, inputs);
  if (failure_) throw UnsupportedNode(current_, *failure_);
  return outputs;
}

// The functions that a node calls do not throw; see guarded(). Any other exception comes while stand-ins are swapped in
// or out: the node has then lost what it had saved, and nobody may run it.
ag::variable_list Replay::with_stand_ins(ca::SwapSavedVariables& saved, const ag::variable_list& inputs) {
  ag::Node& node = *calls_[current_].node;
  const CurrentNode current(calls_[current_].node);
  try {
    return node.apply_with_saved(inputs, saved);
  } catch (const c10::NotImplementedError& error) {
    throw UnsupportedNode(current_, words_of(error));
  } catch (const std::exception& error) {
    throw LostNode(
        fmt::format("[backward] {} (call {}) reported other saved contents than it unpacked, and has lost them: {}",
                    short_name(node), current_, words_of(error)));
  }
}

void Replay::evaluate(size_t index) {
  const RunCall& call = calls_[index];
  ag::Node& node = *call.node;
  current_ = index;
  const Scope scope(short_name(node));
  ag::variable_list inputs = std::move(waiting_[&node]);
  waiting_.erase(&node);
  DIPTYCH_ASSERT(inputs.size() <= node.num_inputs(), "{} takes {} gradients and got {}", short_name(node),
                 node.num_inputs(), inputs.size());
  inputs.resize(node.num_inputs());
  // For a node that runs, the engine hands out the gradients that came in; for one that does not, what its hooks made
  // of them.
  const auto hand_out = [&] {
    for (const auto& capture : call.captures) found_[capture.output] = inputs[capture.input];
  };
  if (call.needed) hand_out();
  if (!node.tensor_pre_hooks().empty() || !node.retains_grad_hooks().empty()) {
    inputs = run_hooks(EagerStage::kTensorHooks, inputs, inputs.size());
  }
  if (!call.needed) hand_out();
  if (!call.needed) return;
  if (contents_.is_eager()[index] || stays_eager_[index]) {
    accumulations_[index] = accumulates(node) && node.post_hooks().empty() && node.pre_hooks().empty() &&
                            node.tensor_post_acc_grad_hooks() == nullptr;
    runs_user_code_ = runs_user_code_ || !accumulations_[index];
    return pass_on(eager(EagerStage::kNode, inputs, wanted_outputs()));
  }
  if (!node.pre_hooks().empty()) inputs = run_hooks(EagerStage::kPreHooks, inputs, inputs.size());
  ag::variable_list outputs = apply(inputs);
  check_outputs(outputs);
  // The graph would not warn.
  if (warnings_.any()) throw UnsupportedNode(index, "it warns: " + warnings_.first());
  maybe_undefined_.derive(inputs, outputs);
  if (!node.post_hooks().empty()) {
    ag::variable_list both = outputs;
    both.insert(both.end(), inputs.begin(), inputs.end());
    outputs = run_hooks(EagerStage::kPostHooks, both, outputs.size());
  }
  pass_on(std::move(outputs));
}

// A result of an eager call, or one that follows from such results alone, may turn out sparse, and then order matters.
at::Tensor Replay::sum_of(const at::Tensor& a, const at::Tensor& b) {
  if (!maybe_undefined_.of(a).empty() || !maybe_undefined_.of(b).empty())
    return eager(EagerStage::kSum, {a, b}, {true})[0];
  const at::Tensor both = at::add(a, b);
  maybe_undefined_.derive({a, b}, {both});
  return both;
}

void Replay::pass_on(ag::variable_list outputs) {
  const ag::edge_list& edges = calls_[current_].node->next_edges();
  for (size_t i = 0; i < std::min(outputs.size(), edges.size()); ++i) {
    if (!edges[i].is_valid() || !outputs[i].defined()) continue;
    auto& inputs = waiting_[edges[i].function.get()];
    inputs.resize(edges[i].function->num_inputs());
    at::Tensor& sum = inputs.at(edges[i].input_nr);
    if (!sum.defined()) {
      sum = std::move(outputs[i]);
      continue;
    }
    sum = sum_of(sum, outputs[i]);
  }
}

// Called apart from the node's replay, so that an exception of the ending is not taken for the node's.
void Replay::tell_ending(const RunCall& call) {
  if (contents_.ending() == nullptr) return;
  for (const auto& capture : call.captures) {
    at::Tensor& gradient = found_[capture.output];
    if (!gradient.defined()) continue;
    gradient = recorder_.stand_in(gradient);
    contents_.ending()->gradient_is_ready(capture.output, gradient);
  }
}

BackwardTrace Replay::begin_result() {
  BackwardTrace trace;
  trace.num_numbers = static_cast<size_t>(num_numbers_);
  trace.accumulations = std::move(accumulations_);
  trace.runs_user_code = runs_user_code_;
  trace.hooks = std::move(hooks_);
  trace.read = std::move(read_);
  return trace;
}

BackwardTrace Replay::finish_with(RunEnding& ending) {
  std::vector<FoundGradient> gradients;
  for (const at::Tensor& gradient : found_) {
    gradients.push_back({gradient, maybe_undefined_.of(gradient)});
  }
  const auto results = ending.finish(gradients, ending_inputs_);
  DIPTYCH_CHECK(recorder_.primals().empty(),
                "[backward] the step after the run reads a tensor of sizes {} that is not among its inputs; compute "
                "from the gradients alone",
                recorder_.primals()[0].real.sizes());
  BackwardTrace trace = begin_result();
  trace.maybe_undefined.resize(results.size());
  for (const auto& [gradient, maybe_undefined] : gradients) {
    trace.dense.insert(trace.dense.end(), maybe_undefined.begin(), maybe_undefined.end());
  }
  std::vector<Value> outputs;
  std::vector<Slot> slots;
  for (size_t i = 0; i < results.size(); ++i) {
    outputs.push_back(recorder_.value_of(results[i]));
    slots.push_back({SlotKind::kOutput, fmt::format("result.{}", i)});
  }
  recorder_.graph().set_outputs(std::move(outputs), std::move(slots));
  trace.graph = std::move(recorder_.graph());
  return trace;
}

BackwardTrace Replay::finish() {
  if (contents_.ending() != nullptr) return finish_with(*contents_.ending());
  std::vector<Value> outputs;
  std::vector<Slot> slots;
  BackwardTrace trace = begin_result();
  for (size_t i = 0; i < found_.size(); ++i) {
    outputs.push_back(found_[i].defined() ? recorder_.value_of(recorder_.stand_in(found_[i])) : Value{});
    slots.push_back({SlotKind::kGradient, fmt::format("gradient.{}", i)});
    trace.maybe_undefined.push_back(maybe_undefined_.of(found_[i]));
  }
  recorder_.graph().set_outputs(std::move(outputs), std::move(slots));
  trace.graph = std::move(recorder_.graph());
  return trace;
}

BackwardTrace Replay::run() {
  const TraceGuard tracing(recorder_);
  const c10::WarningUtils::WarningHandlerGuard listening(&warnings_);
  const c10::WarningUtils::WarnAlways no_warning_is_used_up;
  recorder_.begin_backward(/*create_graph=*/false);
  add_inputs();
  read_input_metadata();
  if (contents_.ending() != nullptr) contents_.ending()->begin();
  for (size_t i = 0; i < calls_.size(); ++i) {
    try {
      evaluate(i);
      // A tensor captured here would be stale in the next run.
      DIPTYCH_CHECK(recorder_.primals().empty(), "[backward] {} reads a tensor that it does not report as saved",
                    short_name(*calls_[i].node));
    } catch (const UnsupportedNode&) {
      throw;
    } catch (const LostNode&) {
      throw;
    } catch (const std::exception& error) {
      throw UnsupportedNode(i, words_of(error));
    }
    tell_ending(calls_[i]);
  }
  return finish();
}

}  // namespace diptych::detail
