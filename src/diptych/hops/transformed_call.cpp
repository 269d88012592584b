#include "diptych/hops/transformed_call.h"

#include <ATen/ops/stack.h>

#include <atomic>

namespace diptych::detail {
namespace {

constexpr EagerOperators kOfAten{
    [](const at::Tensor& tensor, int64_t index) { return tensor.select(0, index); },
    [](const std::vector<at::Tensor>& tensors) { return at::stack(tensors); },
    [](const at::Tensor& tensor) { return tensor.clone(); },
};

std::atomic<const EagerOperators*> operators_of_host{nullptr};

}  // namespace

std::optional<std::string> transform_of(const Flattened& arguments) {
  if (!arguments.spec.subclass().empty()) return arguments.spec.subclass();
  for (size_t i = 0; i < arguments.tensors.size(); ++i) {
    if (const auto why = transform_of(arguments.tensors[i])) {
      return fmt::format("'{}' {}", arguments.spec.tensor_path(i), *why);
    }
  }
  return std::nullopt;
}

std::optional<std::string> why_eager(std::initializer_list<const Flattened*> arguments) {
  std::optional<std::string> why;
  if (thread_may_transform()) why = transform_of_thread();
  for (const Flattened* given : arguments) {
    if (!why) why = transform_of(*given);
  }
  return why;
}

void check_plain(std::string_view who, const Flattened& arguments) {
  auto why = transform_of(arguments);
  if (!why && thread_may_transform()) why = transform_of_keys_and_modes();
  DIPTYCH_CHECK(!why,
                "[{}] {}, expected plain tensors and no mode, because a graph represents nothing else; call the "
                "function itself there, or pass plain tensors, such as x.as_subclass(torch.Tensor)",
                who, why.value_or(""));
}

void note_subclass(const TreeSpec& result) {
  if (result.subclass().empty() || Recorder::current() == nullptr) return;
  Recorder::current()->note_transform("the result " + result.subclass());
}

const EagerOperators& eager_operators() {
  const EagerOperators* const given = operators_of_host;
  return given == nullptr ? kOfAten : *given;
}

void set_eager_operators(const EagerOperators* operators) { operators_of_host = operators; }

}  // namespace diptych::detail
