#include "diptych/trace/memory_overlap.h"

#include <c10/core/impl/COW.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace diptych::detail {
namespace {

constexpr int64_t kMostCounted = 1 << 16;

// Whether each dimension steps over everything that dimensions with smaller strides reach. Then there is no overlap;
// there may be none otherwise, too.
bool is_nested(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != 1) dims.emplace_back(strides[i], sizes[i]);
  }
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;
  for (const auto& [stride, size] : dims) {
    if (stride <= reach) return false;
    reach += stride * (size - 1);
  }
  return true;
}

bool any_place_twice(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  std::vector<int64_t> places{0};
  for (size_t i = 0; i < sizes.size(); ++i) {
    const size_t count = places.size();
    for (int64_t step = 1; step < sizes[i]; ++step) {
      for (size_t k = 0; k < count; ++k) places.push_back(places[k] + step * strides[i]);
    }
  }
  return std::unordered_set<int64_t>(places.begin(), places.end()).size() != places.size();
}

constexpr int64_t kMostRuns = 1 << 20;

// The bytes that a tensor's elements take up: runs of one length, repeated along steps, each of which is larger than
// the ones before it. A byte that is reached by several indices counts once.
struct Places {
  struct Step {
    int64_t stride;
    int64_t size;
  };
  int64_t begin;
  int64_t length;
  std::vector<Step> steps;

  explicit Places(const at::Tensor& tensor)
      : begin(tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize())),
        length(static_cast<int64_t>(tensor.itemsize())) {
    for (int64_t i = 0; i < tensor.dim(); ++i) {
      if (tensor.size(i) > 1 && tensor.stride(i) != 0) steps.push_back({tensor.stride(i) * length, tensor.size(i)});
    }
    std::sort(steps.begin(), steps.end(), [](const Step& x, const Step& y) { return x.stride < y.stride; });
    std::vector<Step> apart;
    for (const Step& step : steps) {
      if (apart.empty() && step.stride <= length) {
        length += step.stride * (step.size - 1);
      } else if (!apart.empty() && apart.back().stride == step.stride) {
        apart.back().size += step.size - 1;
      } else {
        apart.push_back(step);
      }
    }
    steps = std::move(apart);
  }

  int64_t end() const {
    int64_t end = begin + length;
    for (const Step& step : steps) end += step.stride * (step.size - 1);
    return end;
  }

  int64_t num_runs() const {
    int64_t count = 1;
    for (const Step& step : steps) count *= step.size;
    return count;
  }

  std::vector<int64_t> sorted_runs() const {
    std::vector<int64_t> runs{begin};
    for (const Step& step : steps) {
      const size_t count = runs.size();
      for (int64_t i = 1; i < step.size; ++i) {
        for (size_t k = 0; k < count; ++k) runs.push_back(runs[k] + i * step.stride);
      }
    }
    std::sort(runs.begin(), runs.end());
    return runs;
  }

  /// Numbers blocks of `stride` bytes, and reduces the places to those within one block. Returns the first and the last
  /// number of the blocks that have places; nullopt if the places are not the same in all of them.
  std::optional<std::pair<int64_t, int64_t>> fold(int64_t stride) {
    const int64_t first = begin / stride;
    int64_t last = first;
    begin %= stride;
    if (!steps.empty() && steps.back().stride == stride) {
      last += steps.back().size - 1;
      steps.pop_back();
    }
    return end() <= stride ? std::optional(std::pair(first, last)) : std::nullopt;
  }
};

bool any_runs_meet(const Places& a, const Places& b) {
  if (a.num_runs() > kMostRuns || b.num_runs() > kMostRuns) return true;
  const std::vector<int64_t> left = a.sorted_runs(), right = b.sorted_runs();
  for (size_t i = 0, k = 0; i < left.size() && k < right.size();) {
    if (left[i] + a.length <= right[k]) {
      ++i;
    } else if (right[k] + b.length <= left[i]) {
      ++k;
    } else {
      return true;
    }
  }
  return false;
}

// Runs of `whole` that follow each other without a gap count as one.
bool covers(const Places& whole, const Places& part) {
  if (whole.steps.empty()) return whole.begin <= part.begin && part.end() <= whole.end();
  if (whole.num_runs() > kMostRuns || part.num_runs() > kMostRuns) return false;
  const std::vector<int64_t> outer = whole.sorted_runs();
  size_t i = 0;
  for (const int64_t run : part.sorted_runs()) {
    int64_t next = run;  // the first byte that is not known to be covered
    while (i < outer.size() && outer[i] + whole.length <= next) ++i;
    for (size_t k = i; k < outer.size() && outer[k] <= next && next < run + part.length; ++k) {
      next = std::max(next, outer[k] + whole.length);
    }
    if (next < run + part.length) return false;
  }
  return true;
}

bool meet(const Places& a, const Places& b) {
  if (a.begin >= b.end() || b.begin >= a.end()) return false;
  if (a.steps.empty() && b.steps.empty()) return true;
  int64_t stride = 0;
  for (const Places* places : {&a, &b}) {
    if (!places->steps.empty()) stride = std::max(stride, places->steps.back().stride);
  }
  Places in_block = a, other_in_block = b;
  const auto blocks = in_block.fold(stride), others = other_in_block.fold(stride);
  if (!blocks || !others) return any_runs_meet(a, b);
  return blocks->first <= others->second && others->first <= blocks->second && meet(in_block, other_in_block);
}

const c10::StorageImpl* storage_impl(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

}  // namespace

bool has_overlap(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  const int64_t numel = c10::multiply_integers(sizes);
  if (numel < 2 || is_nested(sizes, strides)) return false;
  return numel > kMostCounted || any_place_twice(sizes, strides);
}

bool share_places(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() != 0 && b.numel() != 0 && meet(Places(a), Places(b));
}

bool has_places_of(const at::Tensor& whole, const at::Tensor& part) {
  return part.numel() == 0 || (whole.numel() != 0 && covers(Places(whole), Places(part)));
}

MemoryRange MemoryRange::of(const c10::StorageImpl& storage) {
  // A storage may refuse its pointer to whoever reads elements: those of specs do, and of torch's own fake tensors.
  const c10::DataPtr& memory = const_cast<c10::StorageImpl&>(storage)._mutable_data_ptr_no_checks();
  const auto* begin = static_cast<const char*>(memory.get());
  if (begin == nullptr || c10::impl::cow::is_cow_data_ptr(memory)) return {};
  return {reinterpret_cast<uintptr_t>(begin), reinterpret_cast<uintptr_t>(begin + storage.nbytes())};
}

bool may_share_memory(const at::Tensor& a, const at::Tensor& b) {
  const auto* left = storage_impl(a);
  const auto* right = storage_impl(b);
  if (left == nullptr || right == nullptr) return false;
  return left == right ||
         ((is_lent(*left) || is_lent(*right)) && MemoryRange::of(*left).overlaps(MemoryRange::of(*right)));
}

std::vector<size_t> memory_groups(const std::vector<at::Tensor>& tensors) {
  std::vector<size_t> groups(tensors.size());
  std::iota(groups.begin(), groups.end(), 0);
  std::unordered_map<const c10::StorageImpl*, size_t> first_of;
  std::vector<std::pair<MemoryRange, size_t>> ranges;
  bool any_lent = false;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto* storage = storage_impl(tensors[i]);
    if (storage == nullptr) continue;
    const auto [known, is_new] = first_of.emplace(storage, i);
    groups[i] = known->second;
    if (!is_new) continue;
    any_lent |= is_lent(*storage);
    const MemoryRange range = MemoryRange::of(*storage);
    if (range.begin < range.end) ranges.emplace_back(range, i);
  }
  if (!any_lent) return groups;
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.first.begin < b.first.begin; });
  // Ranges are joined as long as the next one begins before the joined ones end.
  std::vector<size_t> first(tensors.size());
  std::iota(first.begin(), first.end(), 0);
  for (size_t begin = 0; begin < ranges.size();) {
    uintptr_t end = ranges[begin].first.end;
    size_t last = begin + 1;
    size_t smallest = ranges[begin].second;
    for (; last < ranges.size() && ranges[last].first.begin < end; ++last) {
      end = std::max(end, ranges[last].first.end);
      smallest = std::min(smallest, ranges[last].second);
    }
    for (; begin < last; ++begin) first[ranges[begin].second] = smallest;
  }
  for (size_t& group : groups) group = first[group];
  return groups;
}

}  // namespace diptych::detail
