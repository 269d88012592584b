// Parts of lists.
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

}  // namespace diptych::detail
