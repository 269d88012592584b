#include "diptych/compile/captured_function.h"

#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <map>

#include "diptych/autodiff/inner_backward.h"
#include "diptych/backends/builtin_backends.h"
#include "diptych/base/check.h"
#include "diptych/base/log.h"
#include "diptych/compile/host_error.h"
#include "diptych/compile/release_rules.h"
#include "diptych/ops/tags.h"
#include "diptych/passes/remove_dead_nodes.h"
#include "diptych/passes/storage_roots.h"
#include "diptych/scan_passes/pipeline.h"
#include "diptych/trace/memory_overlap.h"
#include "diptych/trace/transforms.h"

namespace diptych::detail {
namespace {

// The backend that decides how the joint graph is split; null where compilers of the user's take both halves as they
// come, and for dynamic sizes, whose graphs have to be alike at all sizes.
std::shared_ptr<const Backend> shaping_backend(const AotOptions& options) {
  if (options.forward_compiler || options.backward_compiler || options.dynamic) return nullptr;
  return backend_by_name(options.backend, options.draws);
}

CaptureOptions capture_options(const AotOptions& options, const CaptureMode& mode, bool accumulates) {
  CaptureOptions made{.name = options.name, .stages = true, .accumulates = accumulates};
  if (options.path_limit == 0) return made;
  made.answers_questions = mode.has_values;
  made.answers = mode.answers;
  return made;
}

std::shared_ptr<JointCapture> make_capture(const FlatFunction& function, const std::vector<at::Tensor>& arguments,
                                           const std::vector<std::string>& paths, const CaptureOptions& options) {
  try {
    return std::make_shared<JointCapture>(function, arguments, paths, options);
  } catch (const TransformMet&) {
    throw;
  } catch (const UserError& error) {
    throw CaptureRefused(error.what());
  }
}

}  // namespace

std::vector<bool> needed_for_gradients(const Joint& joint) {
  const Graph& graph = joint.graph;
  std::vector<bool> needed(graph.num_values());
  for (size_t i = joint.layout.num_forward_outputs(); i < graph.outputs().size(); ++i) {
    if (graph.outputs()[i]) needed[graph.outputs()[i].id] = true;
  }
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    const bool is_needed = std::any_of(node.outputs.begin(), node.outputs.end(),
                                       [&](Value output) { return output && needed[output.id]; });
    // Every draw is repeated in order, so what any of them reads is needed.
    if (is_needed || detail::draws_random(node)) {
      for_each_operand_value(node, [&](Value value) { needed[value.id] = true; });
    }
  }
  return needed;
}

// Returns what eager throws at a backward, which it does not at the call: an error of ATen, or that of an operator of
// Python without a derivative. Null for others. An exception of Python's can be thrown once only.
static std::exception_ptr error_of_backward(const std::exception& error) {
  if (dynamic_cast<const c10::Error*>(&error) != nullptr) return std::current_exception();
  const std::string_view text = error.what();
  const auto begin = text.find("Trying to backward through ");
  if (begin == std::string_view::npos || text.find("no autograd formula was registered") == std::string_view::npos)
    return nullptr;
  if (forget_host_error != nullptr) forget_host_error();
  const auto end = std::min(text.find('\n', begin), text.size());
  return std::make_exception_ptr(std::runtime_error(std::string(text.substr(begin, end - begin))));
}

CapturedFunction::CapturedFunction(const FlatFunction& function, const std::vector<at::Tensor>& arguments,
                                   const std::vector<std::string>& paths, AotOptions options, const CaptureMode& mode,
                                   bool accumulates)
    : options_(std::move(options)),
      shaping_backend_(shaping_backend(options_)),
      simplify_{.fold_constants = mode.extent == CaptureExtent::kCallable},
      capture_(make_capture(function, arguments, paths, capture_options(options_, mode, accumulates))) {
  heed_questions();
  Joint joint = trace_joint();
  layout_ = joint.layout;
  host_reads_ = capture_->host_reads();
  if (mode.extent != CaptureExtent::kCallable)
    traced_graph_ = remove_dead_nodes(joint.graph);
  else if (options_.check_constants != 0)
    traced_graph_ = joint.graph;
  free_variables_ = capture_->free_variables();
  for (const auto& derived : plan().derived) free_variables_[derived.free_variable] = at::Tensor();
  for (const size_t index : plan().captured_arguments) captured_arguments_.push_back(arguments[index]);
  capture_->release_arguments();
  if (mode.extent != CaptureExtent::kTrace) make_graphs(std::move(joint));
}

CapturedFunction::~CapturedFunction() = default;

// The graph has to find what the questions find, which the interpreter asks of the host's generators.
void CapturedFunction::heed_questions() {
  if (any_draws(questions()) && draws_on_device(options_.draws, options_.name)) {
    throw CaptureRefused(fmt::format(
        "[{}] got draws 'device', and the function asks for a value that depends on a draw, which the host can't know; "
        "use draws 'host'",
        options_.name));
  }
  if (!sizes_depend_on_rounding(questions()) || options_.backend == "interpreter") return;
  log(Log::kCache, "{}: runs by the interpreter, since sizes depend on how values are rounded", options_.name);
  options_.backend = "interpreter";
  shaping_backend_ = shaping_backend(options_);
}

Joint CapturedFunction::trace_joint() {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const size_t num_tangents = plan().num_tangents();
  tangent_errors_.resize(num_tangents);
  try {
    return capture_->joint();
  } catch (const TransformMet&) {
    throw;
  } catch (const UserError& error) {
    throw CaptureRefused(error.what());
  } catch (const std::exception& error) {
    if (error_of_backward(error) == nullptr) throw;
    // Eager would throw this at a backward that comes through the tangent at fault, which may never happen.
    std::vector<bool> traceable(num_tangents);
    for (size_t i = 0; i < num_tangents; ++i) {
      std::vector<bool> alone(num_tangents);
      alone[i] = true;
      try {
        capture_->joint(alone);
        traceable[i] = true;
      } catch (const std::exception& error) {
        tangent_errors_[i] = error_of_backward(error);
        if (!tangent_errors_[i]) throw;
      }
    }
    return capture_->joint(traceable);
  }
}

Joint CapturedFunction::lowered(Joint traced) const {
  const bool is_prepared = shaping_backend_ != nullptr && is_differentiable();
  const auto prepare = [this](const Graph& graph) { return shaping_backend_->prepare_joint(graph); };
  return lower_joint(std::move(traced), options_.decompositions, is_prepared ? PrepareJoint(prepare) : nullptr);
}

// The order follows Note [The pipeline].
void CapturedFunction::make_graphs(Joint traced) {
  if (is_differentiable()) find_gradient_starts(traced);
  joint_ = lowered(std::move(traced));
  const bool has_backend = shaping_backend_ != nullptr;
  Split split = split_joint(
      joint_, options_.partition.value_or(has_backend ? shaping_backend_->partition() : default_partition()));
  saved_ = std::move(split.saved);
  split_forward_ = std::move(split.forward);
  find_mutated();
  std::vector<size_t> mutated;
  for (const auto& mutation : plan().mutations) {
    if (mutation.data) mutated.push_back(mutation.primal);
  }
  forward_ = lower(Stage::kForward, split_forward_, {.simplify = simplify_, .mutated = std::move(mutated)});
  draws_random_ = std::any_of(forward_.nodes().begin(), forward_.nodes().end(), detail::draws_random);
  if (!is_differentiable()) return;
  find_residual_sources();
  find_stages();
  // The backward half was traced with autocast off, as backwards usually run.
  halves_.push_back({traceable_tangents(), GlobalState::without_autocast(), std::move(split.backward)});
}

Graph CapturedFunction::handed_on() const {
  Joint prefix{capture_->asked().handed_on, layout_};
  return lower(Stage::kForward, lowered(std::move(prefix)).graph, {.simplify = simplify_});
}

void CapturedFunction::find_mutated() {
  for (const auto& mutation : plan().mutations) {
    if (mutation.geometry) reshaped_.push_back(mutation.primal);
  }
}

void CapturedFunction::find_residual_sources() {
  const auto roots = detail::storage_roots(forward_);
  std::map<Value, ResidualSource> sources;
  const size_t num_outputs = layout_.num_forward_outputs();
  for (size_t i = 0; i < forward_.inputs().size(); ++i) {
    sources.emplace(forward_.inputs()[i], ResidualSource{ResidualSource::Kind::kPrimal, i});
  }
  for (size_t i = 0; i < num_outputs; ++i) {
    // New values of mutated primals are copied out of their slot, so nobody else holds it.
    if (!forward_.outputs()[i] || forward_.output_slots()[i].kind == SlotKind::kMutated) continue;
    sources.emplace(roots[forward_.outputs()[i].id], ResidualSource{ResidualSource::Kind::kOutput, i});
  }
  for (size_t i = num_outputs; i < forward_.outputs().size(); ++i) {
    const auto found = sources.find(roots[forward_.outputs()[i].id]);
    residual_sources_.push_back(found == sources.end() ? ResidualSource{} : found->second);
  }
}

// In the graph as it was traced, whose operators a backward of the backward runs again: the parts of one may read less.
// What is overwritten unseen by autograd gets a derivative, though nothing in the graph reads what it was.
void CapturedFunction::find_gradient_starts(const Joint& traced) {
  const auto needed = needed_for_gradients(traced);
  for (size_t i = 0; i < layout_.num_primals(); ++i) {
    const Value primal = traced.graph.inputs()[i];
    const bool may_be_unseen = plan().rewrites_history && traced.graph.meta(primal).requires_grad;
    if (needed[primal.id] || may_be_unseen) gradient_primals_.push_back(i);
  }
  for (size_t i = 0; i < plan().crossings.size(); ++i) {
    const auto& crossing = plan().crossings[i];
    if (crossing.kind == ForwardPlan::Crossing::Kind::kHidden) continue;
    // Passes renumber values that are not in a slot, so their crossings are always kept.
    if (!is_of_slot(i) || needed[traced.graph.outputs()[crossing.index].id]) gradient_crossings_.push_back(i);
  }
}

void CapturedFunction::find_stages() {
  tangents_of_stage_.resize(plan().num_stages);
  for (size_t i = 0; i < plan().num_tangents(); ++i) tangents_of_stage_[plan().stage_of_tangent[i]].push_back(i);
}

Value CapturedFunction::value_in(const Graph& joint, size_t crossing) const {
  const auto& found = plan().crossings[crossing];
  return is_of_slot(crossing) ? joint.outputs()[found.index] : found.value;
}

bool CapturedFunction::is_of_slot(size_t crossing) const {
  using Kind = ForwardPlan::Crossing::Kind;
  const Kind kind = plan().crossings[crossing].kind;
  return kind == Kind::kSlot || kind == Kind::kLeaf;
}

// As in eager, a node that has saved its own result hands the gradient of the gradient to that result.
bool CapturedFunction::is_own_result(size_t index, size_t stage) const {
  const auto& crossing = plan().crossings[index];
  return crossing.kind == ForwardPlan::Crossing::Kind::kSlot && crossing.stage == stage &&
         crossing.index < plan().outputs.size();
}

std::vector<bool> CapturedFunction::traceable_tangents() const {
  std::vector<bool> traceable;
  for (const auto& error : tangent_errors_) traceable.push_back(!error);
  return traceable;
}

void CapturedFunction::check_traceable(const std::vector<bool>& defined) const {
  for (size_t i = 0; i < defined.size(); ++i) {
    if (defined[i] && tangent_errors_[i]) std::rethrow_exception(tangent_errors_[i]);
  }
}

// Requires: the mutex is held.
Graph CapturedFunction::half(const std::vector<bool>& defined) const {
  const GlobalState state = GlobalState::current();
  for (const Half& known : halves_) {
    if (known.defined == defined && known.state.same_for_backward(state)) return known.graph;
  }
  const Joint variant = lowered(capture_->joint(defined));
  return halves_.emplace_back(Half{defined, state, split_backward(variant, saved_)}).graph;
}

Graph CapturedFunction::backward(const std::vector<bool>& defined, const SimplifyOptions& simplify) const {
  check_traceable(defined);
  const std::lock_guard<std::mutex> lock(mutex_);
  return lower(Stage::kBackward, half(defined), {.simplify = simplify});
}

Joint CapturedFunction::joint(const std::vector<bool>& defined) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return capture_->joint(defined, /*create_graph=*/true);
}

std::optional<TracedValues> CapturedFunction::gradients(const std::vector<bool>& defined) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return capture_->gradients(defined);
}

TracedValues CapturedFunction::derivatives(const TracedValues& values, const std::vector<bool>& defined) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return capture_->derivatives(values, defined);
}

bool CapturedFunction::reads_same(const CapturedFunction& other) const {
  return std::equal(free_variables_.begin(), free_variables_.end(), other.free_variables_.begin(),
                    other.free_variables_.end(), [](const at::Tensor& a, const at::Tensor& b) { return a.is_same(b); });
}

const ReleaseRules& CapturedFunction::release_rules() const {
  std::call_once(rules_made_, [&] {
    const std::lock_guard<std::mutex> lock(mutex_);
    release_rules_ = std::make_unique<ReleaseRules>(capture_->saving_nodes(), joint_, saved_, gradient_primals_);
  });
  return *release_rules_;
}

HostState CapturedFunction::host_state() const {
  detail::HostState state;
  for (const auto& reads : host_reads_) state.emplace_back(reads, reads->hash());
  return state;
}

std::vector<at::Tensor> CapturedFunction::primals_of(c10::ArrayRef<const at::Tensor*> arguments) const {
  std::vector<at::Tensor> primals;
  primals.reserve(arguments.size() + free_variables_.size());
  for (const at::Tensor* argument : arguments) primals.push_back(*argument);
  primals.insert(primals.end(), free_variables_.begin(), free_variables_.end());
  for (const auto& derived : plan().derived) {
    primals[arguments.size() + derived.free_variable] = detail::autograd_base(primals[derived.base_of]);
  }
  for (const size_t part : plan().parts) {
    DIPTYCH_CHECK(!primals[part].retains_grad() && torch::autograd::impl::hooks(primals[part]).empty(),
                  "[{}] argument {} has hooks or retains its gradient, but is a view of a tensor that other arguments "
                  "share and the function changes, so gradients bypass it; remove the hooks",
                  options_.name, part);
  }
  return primals;
}

// Gradients are accumulated when the graph has run. So a .grad that lies in memory which the graph reads or writes, as
// of flat buffers of gradients, is met as well.
bool CapturedFunction::meets_gradient_hook(c10::ArrayRef<const at::Tensor*> arguments) const {
  if (plan().accumulated.empty()) return false;
  std::vector<const at::Tensor*> primals(arguments.begin(), arguments.end());
  for (const at::Tensor& tensor : free_variables_) primals.push_back(&tensor);
  return std::any_of(plan().accumulated.begin(), plan().accumulated.end(), [&](size_t index) {
    const at::Tensor& leaf = *primals[index];
    const auto shares = [&](const at::Tensor* one) { return one->defined() && may_share_memory(*one, leaf.grad()); };
    return has_gradient_hooks(leaf) || (leaf.grad().defined() && std::any_of(primals.begin(), primals.end(), shares));
  });
}

std::vector<at::Tensor> CapturedFunction::written(c10::ArrayRef<const at::Tensor*> arguments) const {
  const std::vector<at::Tensor> primals = primals_of(arguments);
  std::vector<at::Tensor> found;
  for (const MutationPlan& mutation : plan().mutations) {
    if (mutation.data) found.push_back(primals.at(mutation.primal));
  }
  return found;
}

}  // namespace diptych::detail
