#include "diptych/trace/recording_kernels.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "diptych/graph/library_forms.h"
#include "diptych/ops/dispatch_keys.h"
#include "diptych/ops/trace_traits.h"

namespace diptych::detail {
namespace {

/// The operators that have no kernel of ours yet. The dispatcher tells of them while it holds its lock, under which
/// nothing can be registered.
class NewOperators final : public c10::OpRegistrationListener {
 public:
  void onOperatorRegistered(const c10::OperatorHandle& op) override {
    const std::lock_guard lock(mutex_);
    names_.push_back(op.operator_name());
    any_.store(true, std::memory_order_release);
  }
  void onOperatorDeregistered(const c10::OperatorHandle& /*op*/) override {}

  std::vector<c10::OperatorName> take() {
    if (!any_.load(std::memory_order_acquire)) return {};
    const std::lock_guard lock(mutex_);
    any_.store(false, std::memory_order_release);
    return std::exchange(names_, {});
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> any_{false};
  std::vector<c10::OperatorName> names_;
};

/// What is registered for as long as the process runs.
struct Registered {
  c10::KernelFunction kernel;
  NewOperators* operators = nullptr;  ///< the dispatcher owns it
  std::mutex mutex;
  std::unordered_map<c10::OperatorName, c10::RegistrationHandleRAII> handles;
  c10::RegistrationHandleRAII listening{nullptr};
};

// Whether autograd takes the operator apart on all devices, and it is not called below autograd as one operator.
bool is_composite(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
         !op.hasKernelForDispatchKey(c10::DispatchKey::CPU) && !is_library_form(op.operator_name()) &&
         trace_trait(Op(op)) != TraceTrait::kFunctionalForm;
}

Registered& registered() {
  static auto* const all = new Registered;
  return *all;
}

}  // namespace

void register_recording_kernels(const c10::KernelFunction& kernel) {
  Registered& all = registered();
  all.kernel = kernel;
  auto operators = std::make_unique<NewOperators>();
  all.operators = operators.get();
  all.listening = c10::Dispatcher::singleton().addRegistrationListener(std::move(operators));
  register_new_recording_kernels();
}

void register_new_recording_kernels() {
  Registered& all = registered();
  auto names = all.operators->take();
  if (names.empty()) return;
  auto& dispatcher = c10::Dispatcher::singleton();
  const std::lock_guard lock(all.mutex);
  for (auto& name : names) {
    all.handles.erase(name);  // a library was unloaded, and another one has defined it again
    const auto op = dispatcher.findSchema(name);
    if (!op || is_composite(*op)) continue;
    all.handles.emplace(name,
                        dispatcher.registerImpl(name, kFakeKey, all.kernel, std::nullopt, nullptr, "diptych's traces"));
  }
}

}  // namespace diptych::detail
