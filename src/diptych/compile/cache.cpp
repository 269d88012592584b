#include "diptych/compile/cache.h"

#include <algorithm>

#include "diptych/base/switches.h"

namespace diptych {

TensorGuards Cache::guards_of(const CompiledFunction& code, Tensors tensors) {
  code.append_free_variables(tensors);
  return TensorGuards(tensors);
}

std::shared_ptr<Cache::Entry> Cache::make(TreeSpec spec, const std::vector<at::Tensor>& arguments,
                                          const Tensors& tensors, const CaptureAt& capture, bool dynamic) {
  record_miss(spec, tensors);
  if (dynamic) {
    if (auto entry = make_dynamic(spec, arguments, tensors, capture)) return entry;
  }
  auto code = capture(arguments, {});
  TensorGuards guards = guards_of(*code, tensors);
  return std::make_shared<Entry>(std::move(spec), GlobalState::current(), std::move(guards), std::move(code));
}

std::shared_ptr<Cache::Entry> Cache::make_dynamic(const TreeSpec& spec, const std::vector<at::Tensor>& arguments,
                                                  const Tensors& tensors, const CaptureAt& capture) {
  constexpr size_t kMostFailures = 3;
  const auto state = GlobalState::current();
  std::vector<std::vector<int64_t>> examples;
  std::optional<TensorGuards> guards;
  for (const auto& entry : entries()) {
    if (!(entry->spec == spec) || !(entry->state == state)) continue;
    TensorGuards here = guards_of(*entry->code, tensors);
    if (!here.same_but_geometry(entry->guards)) continue;
    examples.push_back(entry->guards.geometry());
    guards = std::move(here);
  }
  if (!guards || failed_patterns_ == kMostFailures) return nullptr;
  const auto pattern = SizePattern::with(examples, guards->geometry());
  if (!pattern) return nullptr;
  std::string why;
  const auto sized = SizedFunctions::make(*pattern, *guards, arguments, capture, why);
  if (!sized) {
    log(Log::kCache, "{}: sizes stay as they are: {}", name_, why);
    ++failed_patterns_;
    return nullptr;
  }
  log(Log::kCache, "{}: sizes are dynamic now", name_);
  guards->generalize(sized->pattern());
  return std::make_shared<Entry>(spec, state, std::move(*guards), std::make_shared<CompiledFunction>(sized));
}

void Cache::insert(std::shared_ptr<Entry> entry) {
  const std::unique_lock<std::shared_mutex> lock(mutex_);
  entry->last_used = ++clock_;
  entries_.insert(entries_.begin(), std::move(entry));
  while (limit_ > 0 && entries_.size() > limit_) {
    const auto oldest = std::min_element(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
      return a->last_used.load() < b->last_used.load();
    });
    entries_.erase(oldest);
    ++evictions_;
    log(Log::kCache, "{}: over the limit of {} captures, the one used longest ago is discarded", name_, limit_);
  }
}

// Against the most recently added entry of the same structure, or else one with the same tensors, whose constants must
// differ, or else the most recently added.
std::string Cache::why_miss(const TreeSpec& spec, const Tensors& tensors) const {
  if (entries_.empty()) return "";
  const auto find = [&](const auto& is_near) {
    const auto found = std::find_if(entries_.begin(), entries_.end(), is_near);
    return found == entries_.end() ? nullptr : found->get();
  };
  const Entry* nearest = find([&](const auto& entry) { return entry->spec == spec; });
  if (nearest == nullptr) {
    const auto paths = spec.tensor_paths();
    nearest = find([&](const auto& entry) { return entry->spec.tensor_paths() == paths; });
  }
  if (nearest == nullptr) nearest = entries_.front().get();
  if (auto difference = first_difference(nearest->spec, spec)) return *difference;
  auto text = nearest->state.difference(GlobalState::current());
  if (text.empty()) {
    Tensors all = tensors;
    nearest->code->append_free_variables(all);
    text = nearest->guards.first_failure(all, [&](size_t index) {
      const size_t num = spec.num_tensors();
      return index < num ? spec.tensor_path(index) : fmt::format("free.{}", index - num);
    });
  }
  return text;
}

void Cache::record_miss(const TreeSpec& spec, const Tensors& tensors) {
  const std::unique_lock<std::shared_mutex> lock(mutex_);
  ++misses_;
  last_miss_ = why_miss(spec, tensors);
  log(Log::kCache, "{}: miss {}: {}", name_, misses_, last_miss_.empty() ? "first call" : last_miss_);
}

CacheStats Cache::stats() const {
  const std::shared_lock<std::shared_mutex> lock(mutex_);
  return {hits_.load(), misses_, evictions_, entries_.size(), last_miss_};
}

std::vector<std::shared_ptr<const Cache::Entry>> Cache::entries() const {
  const std::shared_lock<std::shared_mutex> lock(mutex_);
  return {entries_.begin(), entries_.end()};
}

void Cache::clear() {
  const std::unique_lock<std::shared_mutex> lock(mutex_);
  entries_.clear();
}

}  // namespace diptych
