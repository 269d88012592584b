#include "diptych/hops/transformed_call.h"

#include <ATen/ops/stack.h>

#include <algorithm>
#include <atomic>

#include "diptych/base/check.h"
#include "diptych/trace/levels.h"

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

TensorMeta meta_of_argument(const at::Tensor& argument) {
  return transform_of(argument) ? logical_meta(argument) : TensorMeta::of(argument);
}

bool is_transformed(std::initializer_list<const Flattened*> arguments) {
  if (levels_are_active()) return true;
  return std::any_of(arguments.begin(), arguments.end(), [](const Flattened* given) {
    return std::any_of(given->tensors.begin(), given->tensors.end(), has_tangent);
  });
}

std::optional<std::string> why_eager(std::initializer_list<const Flattened*> arguments) {
  if (thread_may_transform()) {
    if (auto why = transform_without_rules()) return why;
  }
  for (const Flattened* given : arguments) {
    if (!given->spec.subclass().empty()) return given->spec.subclass();
    for (size_t i = 0; i < given->tensors.size(); ++i) {
      const at::Tensor& tensor = given->tensors[i];
      if (!has_rules(tensor)) return fmt::format("'{}' {}", given->spec.tensor_path(i), *transform_of(tensor));
    }
  }
  return std::nullopt;
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
