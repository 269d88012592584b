// Constant arguments of nodes as C++ values.
#pragma once
#include <ATen/core/ivalue.h>

#include <vector>

namespace diptych::detail {

/// A list of integers in any of the forms that graphs hold: one integer, a list of them, a list of constants. None is
/// an empty list.
inline std::vector<int64_t> integers_of(const c10::IValue& value) {
  if (value.isNone()) return {};
  if (value.isInt()) return {value.toInt()};
  if (value.isIntList()) return value.toIntVector();
  std::vector<int64_t> list;
  for (const auto& element : value.toListRef()) list.push_back(element.toInt());
  return list;
}

}  // namespace diptych::detail
