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

constexpr std::string_view kWithoutComplexFormula[] = {"aten::select_scatter", "aten::slice_scatter"};

// Operators that have a form for tensors in place of each number, and the overloads.
struct Forms {
  std::string_view name;
  std::string_view of_numbers;
  std::string_view of_tensors;
  NumberRule rule = NumberRule::kWrapped;
};
constexpr auto kChecked = NumberRule::kChecked, kFills = NumberRule::kFills;
constexpr Forms kForms[] = {
    {"aten::add", "Scalar", "Tensor"},
    {"aten::add_", "Scalar", "Tensor"},
    {"aten::clamp", "", "Tensor", kChecked},
    {"aten::clamp_", "", "Tensor", kChecked},
    {"aten::clamp_max", "", "Tensor", kChecked},
    {"aten::clamp_max_", "", "Tensor", kChecked},
    {"aten::clamp_min", "", "Tensor", kChecked},
    {"aten::clamp_min_", "", "Tensor", kChecked},
    {"aten::div", "Scalar", "Tensor"},
    {"aten::div", "Scalar_mode", "Tensor_mode"},
    {"aten::div_", "Scalar", "Tensor"},
    {"aten::eq", "Scalar", "Tensor"},
    {"aten::fill_", "Scalar", "Tensor", kFills},
    {"aten::fmod", "Scalar", "Tensor"},
    {"aten::ge", "Scalar", "Tensor"},
    {"aten::gt", "Scalar", "Tensor"},
    {"aten::le", "Scalar", "Tensor"},
    {"aten::lt", "Scalar", "Tensor"},
    {"aten::masked_fill", "Scalar", "Tensor", kFills},
    {"aten::masked_fill_", "Scalar", "Tensor", kFills},
    {"aten::mul", "Scalar", "Tensor"},
    {"aten::mul_", "Scalar", "Tensor"},
    {"aten::ne", "Scalar", "Tensor"},
    {"aten::pow", "Tensor_Scalar", "Tensor_Tensor", kChecked},
    {"aten::remainder", "Scalar", "Tensor"},
    {"aten::rsub", "Scalar", "Tensor"},
    {"aten::sub", "Scalar", "Tensor"},
    {"aten::sub_", "Scalar", "Tensor"},
    {"aten::where", "ScalarOther", "self", kChecked},
    {"aten::where", "ScalarSelf", "self", kChecked},
};

const Forms* find_forms(const Op& op) {
  if (op.is_hop()) return nullptr;
  const auto& name = op.handle().operator_name();
  const auto* forms = std::find_if(std::begin(kForms), std::end(kForms), [&](const Forms& known) {
    return known.name == name.name && known.of_numbers == name.overload_name;
  });
  return forms == std::end(kForms) ? nullptr : forms;
}

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

bool lacks_complex_formula(const Op& op) {
  if (op.is_hop() || !op.handle().operator_name().overload_name.empty()) return false;
  const auto* const end = std::end(kWithoutComplexFormula);
  return std::find(std::begin(kWithoutComplexFormula), end, op.handle().operator_name().name) != end;
}

std::optional<Op> form_for_tensors(const Op& op) {
  const Forms* const forms = find_forms(op);
  return forms ? find_op({std::string(forms->name), std::string(forms->of_tensors)}) : std::nullopt;
}

NumberRule number_rule(const Op& op) {
  const Forms* const forms = find_forms(op);
  return forms ? forms->rule : NumberRule::kWrapped;
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
