#include "diptych/trace/transforms.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/functorch/DynamicLayer.h>
#include <ATen/functorch/TensorWrapper.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <atomic>
#include <mutex>

#include "diptych/base/check.h"
#include "diptych/base/log.h"
#include "diptych/base/torch_version.h"
#include "diptych/ops/dispatch_keys.h"
#include "diptych/trace/fake_tensor.h"
#include "diptych/trace/levels.h"
#include "diptych/trace/recorder.h"

#if DIPTYCH_TORCH_AT_LEAST(2, 14)
#include <ATen/NodeCreationHooks.h>
#endif

namespace diptych {

using namespace detail;
namespace {

namespace ag = torch::autograd;
using Key = c10::DispatchKey;

struct EagerCalls {
  std::mutex mutex;
  std::map<std::string, size_t> counts;
};

EagerCalls& all_eager_calls() {
  static auto* const calls = new EagerCalls;
  return *calls;
}

std::atomic<detail::ModeReader> mode_reader{nullptr};

// The meaning of a dispatch key of a tensor.
struct KeyMeaning {
  Key key;
  const char* meaning;
};
constexpr KeyMeaning kOfTensors[] = {
    {Key::FuncTorchGradWrapper, "is wrapped by a transform of torch.func"},
    {Key::FuncTorchBatched, "is a batched tensor of vmap"},
    {Key::BatchedNestedTensor, "is a batched tensor of vmap"},
    {Key::Batched, "is a batched tensor of vmap"},
    {Key::Python, "is a tensor subclass with its own dispatch"},
    {Key::Functionalize, "is a functional tensor of another tracer"},
};
// The meaning of a dispatch key that a thread includes.
constexpr KeyMeaning kOfLevels[] = {
    {Key::FuncTorchDynamicLayerFrontMode, "a transform of torch.func is active"},
    {Key::VmapMode, "vmap is active"},
    {Key::FuncTorchVmapMode, "vmap is active"},
};
constexpr KeyMeaning kOfThreads[] = {
    {Key::Python, "a TorchDispatchMode is active"},
    {Key::Functionalize, "functionalization is active"},
    {Key::PythonDispatcher, "Python's dispatcher is active"},
};

bool hooks_are_active() {
  return c10::GradMode::is_enabled() && !at::SavedTensorDefaultHooks::get_tls_state().stack.empty();
}

// Such hooks see the nodes that eager makes, of which a compiled call makes none.
bool node_hooks_are_active() {
#if DIPTYCH_TORCH_AT_LEAST(2, 14)
  return c10::GradMode::is_enabled() && !at::impl::NodeCreationHooks::empty();
#else
  return false;
#endif
}

bool function_modes_are_active() {
  return mode_reader.load(std::memory_order_relaxed) != nullptr && at::impl::torch_function_mode_enabled();
}

// The keys of transforms that higher-order operators have rules for.
constexpr c10::DispatchKeySet kLevels({Key::FuncTorchDynamicLayerFrontMode, Key::FuncTorchDynamicLayerBackMode});

bool functionalizes() {
  const auto& layers = at::functorch::getDynamicLayerStack();
  return std::any_of(layers.begin(), layers.end(),
                     [](const auto& layer) { return layer.key() == at::functorch::TransformType::Functionalize; });
}

// Names a dispatch key that the thread includes or excludes, and does not in the ordinary state; `known` are keys that
// do not count.
std::optional<std::string> transform_by_keys(c10::DispatchKeySet known = {}) {
  const auto keys = c10::impl::tls_local_dispatch_key_set();
  auto included = keys.included_ - c10::default_included_set - known;
  auto excluded = keys.excluded_ - c10::default_excluded_set;
  if (detail::Recorder::current() != nullptr) {
    included = included - detail::kTraceKeys;
    excluded = excluded - detail::kTraceKeys - c10::DispatchKeySet(detail::kSelectKey);
  }
  if (c10::InferenceMode::is_enabled()) {
    excluded = excluded - c10::autograd_dispatch_keyset - c10::DispatchKeySet(Key::ADInplaceOrView);
  }
  for (const auto& row : kOfLevels) {
    if (included.has(row.key)) return row.meaning;
  }
  for (const auto& row : kOfThreads) {
    if (included.has(row.key)) return row.meaning;
  }
  if (!included.empty()) return "the thread includes the dispatch keys " + c10::toString(included);
  if (excluded.has_any(c10::autograd_dispatch_keyset)) return "autograd's dispatch keys are excluded on the thread";
  if (!excluded.empty()) return "the thread excludes the dispatch keys " + c10::toString(excluded);
  return std::nullopt;
}

}  // namespace

std::map<std::string, size_t> eager_calls() {
  auto& calls = all_eager_calls();
  const std::lock_guard lock(calls.mutex);
  return calls.counts;
}

namespace detail {

bool has_tangent(const at::Tensor& tensor) {
  if (!tensor.defined()) return false;
  const auto* meta = static_cast<const ag::AutogradMeta*>(tensor.unsafeGetTensorImpl()->autograd_meta());
  if (meta == nullptr) return false;
  if (meta->fw_grad_ && !meta->fw_grad_->empty()) return true;
  if (!meta->is_view_) return false;
  const auto* view = static_cast<const ag::DifferentiableViewMeta*>(meta);
  return view->has_fw_view() && has_tangent(view->get_forward_view().base_);
}

std::optional<std::string> transform_of(const at::Tensor& tensor) {
  if (!tensor.defined() || is_stand_in(tensor)) return std::nullopt;
  if (has_tangent(tensor)) return "has a forward-mode tangent";
  const auto keys = tensor.key_set();
  for (const auto& row : kOfTensors) {
    if (keys.has(row.key)) return row.meaning;
  }
  return std::nullopt;
}

bool has_rules(const at::Tensor& tensor) {
  if (!tensor.defined() || is_stand_in(tensor)) return true;
  if (tensor.key_set().has_any(kTransformedKeys - kWrapperKeys)) return false;
  if (const auto* batched = at::functorch::maybeGetBatchedImpl(tensor)) return has_rules(batched->value());
  const auto* wrapper = at::functorch::maybeGetTensorWrapper(tensor);
  return wrapper == nullptr || has_rules(wrapper->value());
}

std::optional<std::string> transform_of_levels() {
  const auto included = c10::impl::tls_local_dispatch_key_set().included_;
  for (const auto& row : kOfLevels) {
    if (included.has(row.key)) return row.meaning;
  }
  return std::nullopt;
}

std::optional<std::string> transform_of_keys_and_modes() {
  if (auto why = transform_by_keys()) return why;
  return function_modes_are_active() ? mode_reader.load()() : std::nullopt;
}

namespace {

std::optional<std::string> transform_of_hooks() {
  if (Recorder::current() != nullptr) return std::nullopt;
  if (hooks_are_active()) return "hooks on saved tensors are active around the call";
  if (node_hooks_are_active()) return "hooks on the creation of autograd's nodes are active around the call";
  if (ag::AnomalyMode::is_enabled()) return "anomaly mode is on";
  return std::nullopt;
}

}  // namespace

std::optional<std::string> transform_of_thread() {
  if (auto why = transform_of_keys_and_modes()) return why;
  return transform_of_hooks();
}

std::optional<std::string> transform_without_rules() {
  if (levels_are_active() && functionalizes()) return "functionalize() of torch.func is active";
  if (auto why = transform_by_keys(kLevels)) return why;
  if (function_modes_are_active()) {
    if (auto why = mode_reader.load()()) return why;
  }
  return transform_of_hooks();
}

void set_mode_reader(ModeReader reader) { mode_reader = reader; }

bool thread_may_transform() {
  const auto keys = c10::impl::tls_local_dispatch_key_set();
  const auto unknown = (keys.included_ - c10::default_included_set) | (keys.excluded_ - c10::default_excluded_set);
  return !unknown.empty() || function_modes_are_active() || ag::AnomalyMode::is_enabled() || hooks_are_active() ||
         node_hooks_are_active();
}

namespace {

// Whether a tensor, or one that torch.func has wrapped in it, is differentiated.
bool is_differentiated(const at::Tensor& tensor) {
  if (tensor.requires_grad() || has_tangent(tensor)) return true;
  if (const auto* batched = at::functorch::maybeGetBatchedImpl(tensor)) return is_differentiated(batched->value());
  const auto* wrapper = at::functorch::maybeGetTensorWrapper(tensor);
  return wrapper != nullptr && is_differentiated(wrapper->value());
}

}  // namespace

// A capture has to see what is not in the graph of a value: a custom Function with a derivative of its own, and a
// gradient that is differentiated again. It therefore takes what is differentiated at any level for what requires grad.
TensorMeta logical_meta(const at::Tensor& tensor) {
  TensorMeta meta;
  meta.dtype = tensor.scalar_type();
  meta.device = tensor.device();
  for (const int64_t size : tensor.sizes()) meta.sizes.emplace_back(size);
  meta.strides = contiguous_strides(meta.sizes);
  if (is_dense(meta.size_hints(), tensor.strides().vec())) {
    meta.strides.assign(tensor.strides().begin(), tensor.strides().end());
  }
  meta.requires_grad = (tensor.is_floating_point() || tensor.is_complex()) && is_differentiated(tensor);
  return meta;
}

void note_eager_call(const std::string& who, const std::string& why) {
  log(Log::kCache, "{}: run by the function itself: {}", who, why);
  auto& calls = all_eager_calls();
  const std::lock_guard lock(calls.mutex);
  ++calls.counts["[" + who + "] " + why];
}

TransformMet::TransformMet(const std::string& why)
    : UserError(fmt::format("[capture] {}, which a graph can't represent; call the function itself there, or pass "
                            "plain tensors",
                            why)),
      why_(why) {}

void check_plain(std::string_view who, c10::ArrayRef<at::Tensor> tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto why = transform_of(tensors[i]);
    DIPTYCH_CHECK(!why,
                  "[{}] tensor {} {}, expected a plain one, because the graph that runs here has no rule for it; call "
                  "the function that it was captured from",
                  who, i, why.value_or(""));
  }
}

}  // namespace detail
}  // namespace diptych
