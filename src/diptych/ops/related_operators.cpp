#include "diptych/ops/related_operators.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "diptych/ops/tags.h"

namespace diptych::detail {
namespace {

// Structured operators.
constexpr std::string_view kProducts[] = {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"};

std::optional<Op> find_op(const c10::OperatorName& name) {
  auto found = c10::Dispatcher::singleton().findSchema(name);
  return found ? std::optional<Op>(*std::move(found)) : std::nullopt;
}

}  // namespace

std::optional<Op> product_into(const Op& op) {
  if (op.is_hop()) return std::nullopt;
  const auto& name = op.handle().operator_name();
  const bool is_product = name.overload_name.empty() &&
                          std::find(std::begin(kProducts), std::end(kProducts), name.name) != std::end(kProducts);
  return is_product ? find_op({name.name, "out"}) : std::nullopt;
}

std::optional<Op> function_of_gradient(const Op& op) {
  constexpr std::string_view kSuffix = "_backward";
  if (op.is_hop()) return std::nullopt;
  const auto& name = op.handle().operator_name();
  if (!name.overload_name.empty() || !name.name.ends_with(kSuffix)) return std::nullopt;
  auto function = find_op({name.name.substr(0, name.name.size() - kSuffix.size()), ""});
  return function && has_tag(*function, Tag::kPointwise) ? function : std::nullopt;
}

}  // namespace diptych::detail
