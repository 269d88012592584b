// Parts of lists, and lists of parts.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace diptych::detail {

/// Returns the `count` elements of `list` from `begin` on. Requires: begin + count <= list.size().
template <class T>
std::vector<T> part(const std::vector<T>& list, size_t begin, size_t count) {
  return {list.begin() + static_cast<int64_t>(begin), list.begin() + static_cast<int64_t>(begin + count)};
}

/// Returns the elements of `first`, then those of `second`.
template <class T>
std::vector<T> joined(std::vector<T> first, const std::vector<T>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace diptych::detail
