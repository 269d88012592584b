#include "diptych/backend/checked_executable.h"

#include <fmt/ranges.h>

#include <atomic>
#include <map>
#include <optional>

#include "diptych/base/check.h"
#include "diptych/base/switches.h"
#include "diptych/interpreter/call_checks.h"
#include "diptych/interpreter/symbols.h"

namespace diptych::detail {
namespace {

constexpr const char* kRemedy = "a compiler must return what the graph's metadata says";

class CheckedExecutable final : public Executable {
 public:
  CheckedExecutable(std::shared_ptr<const Executable> executable, const Graph& graph, std::string name)
      : executable_(std::move(executable)),
        graph_(graph),
        name_(std::move(name)),
        binder_(graph),
        slots_(graph.output_slots()) {
    for (const Value value : graph.outputs()) {
      expected_.push_back(value ? std::optional<TensorMeta>(graph.meta(value)) : std::nullopt);
    }
  }

  std::vector<at::Tensor> run(std::vector<at::Tensor>&& inputs) const override {
    if (is_checked_.load(std::memory_order_acquire) && !checks_calls())
      return counted(executable_->run(std::move(inputs)));
    if (checks_calls()) detail::check_call(graph_, inputs);
    // The run consumes the inputs, so their sizes are read before it.
    std::map<std::string, int64_t> symbols;
    if (binder_.has_symbols()) symbols = binder_.solve(binder_.observe(inputs));
    auto outputs = counted(executable_->run(std::move(inputs)));
    check(outputs, symbols);
    is_checked_.store(true, std::memory_order_release);
    return outputs;
  }

  std::vector<std::shared_ptr<const Executable>> parts() const override { return {executable_}; }

 private:
  std::vector<at::Tensor> counted(std::vector<at::Tensor>&& outputs) const {
    DIPTYCH_CHECK(outputs.size() == expected_.size(), "[backend {}] returned {} outputs, expected {}; {}", name_,
                  outputs.size(), expected_.size(), kRemedy);
    return std::move(outputs);
  }

  void check(const std::vector<at::Tensor>& outputs, const std::map<std::string, int64_t>& symbols) const {
    for (size_t i = 0; i < outputs.size(); ++i) {
      const auto got = outputs[i].defined() ? describe(outputs[i], slots_[i]) : std::string("undefined");
      const auto wanted = expected_[i] ? describe(*expected_[i], symbols, outputs[i]) : std::string("undefined");
      DIPTYCH_CHECK(got == wanted, "[backend {}] output {} ({}) came back as {}, expected {}; {}", name_, i,
                    slots_[i].path, got, wanted, kRemedy);
    }
  }

  // Strides are the backend's own business, so they are left out.
  static std::string describe(at::ScalarType dtype, c10::Device device, at::IntArrayRef sizes) {
    auto text = fmt::format("{}[{}]", dtype_name(dtype), fmt::join(sizes, ","));
    return device.is_cpu() ? text : text + " on " + device.str();
  }
  // A gradient may be sparse, which metadata does not say.
  static std::string describe(const at::Tensor& tensor, const Slot& slot) {
    if (at::isQIntType(tensor.scalar_type())) return fmt::format("a {} tensor", toString(tensor.scalar_type()));
    const bool is_plain = tensor.layout() == at::kStrided;
    if (!is_plain && !(tensor.is_sparse() && slot.kind == SlotKind::kGradient)) return "a tensor that is not strided";
    return describe(tensor.scalar_type(), tensor.device(), tensor.sizes());
  }
  static std::string describe(const TensorMeta& meta, const std::map<std::string, int64_t>& symbols,
                              const at::Tensor& got) {
    return describe(meta.dtype, meta.device, detail::sizes_by(meta.sizes, symbols, got));
  }

  std::shared_ptr<const Executable> executable_;
  const Graph graph_;
  std::string name_;
  SymbolBinder binder_;
  std::vector<Slot> slots_;
  std::vector<std::optional<TensorMeta>> expected_;
  mutable std::atomic<bool> is_checked_{false};
};

}  // namespace

std::shared_ptr<const Executable> checked_executable(std::shared_ptr<const Executable> executable, const Graph& graph,
                                                     std::string name) {
  DIPTYCH_CHECK(executable != nullptr, "[backend {}] returned no executable for graph '{}'; a compiler must return one",
                name, graph.name());
  return std::make_shared<CheckedExecutable>(std::move(executable), graph, std::move(name));
}

}  // namespace diptych::detail
