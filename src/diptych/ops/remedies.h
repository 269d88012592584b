// What a user can write instead of an operator that a graph can't hold, as the end of a refusal.
#pragma once
#include <string_view>

namespace diptych::detail {

/// Returns what to do where the operator `name` ("aten::nonzero") needs the values of a tensor.
std::string_view remedy_for_values(std::string_view name);

}  // namespace diptych::detail
