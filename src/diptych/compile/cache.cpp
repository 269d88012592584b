#include "diptych/compile/cache.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "diptych/base/log.h"
#include "diptych/compile/warning.h"
#include "diptych/hops/transformed_call.h"

namespace diptych::detail {

namespace {
constexpr std::string_view kTooManyPaths = "asks for values that lead to";
}  // namespace

TensorGuards Cache::guards_of(const CapturedFunction& code, Tensors tensors) {
  code.append_free_variables(tensors);
  const auto& mutations = code.plan().mutations;
  const bool writes = std::any_of(mutations.begin(), mutations.end(), [](const auto& change) { return change.data; });
  return TensorGuards(tensors, writes ? TensorGuards::Memory::kByAddress : TensorGuards::Memory::kByStorage,
                      code.plan().counted_offsets);
}

// Returns the entries whose guards hold at sizes at which they were not yet compared with a trace, with these sizes.
std::vector<std::pair<std::shared_ptr<Cache::Entry>, SymbolValues>> Cache::unchecked_entries(const Miss& miss) const {
  std::vector<std::pair<std::shared_ptr<Entry>, SymbolValues>> found;
  const auto state = GlobalState::current();
  const std::shared_lock<std::shared_mutex> lock(mutex_);
  for (const auto& entry : entries_) {
    if (!entry->checked || !(entry->spec == miss.spec) || !(entry->state == state)) continue;
    Tensors tensors = miss.tensors;
    entry->code->captured().append_free_variables(tensors);
    SymbolValues sizes{};
    if (entry->guards.check(tensors, &sizes) && entry->checked->count(sizes) == 0) found.emplace_back(entry, sizes);
  }
  return found;
}

std::shared_ptr<const Cache::Entry> Cache::find_by_trace(const Miss& miss) {
  const auto entries = unchecked_entries(miss);
  if (entries.empty()) return nullptr;
  const auto trace = miss.capture(miss.arguments, CaptureExtent::kTrace);
  std::shared_ptr<const Entry> right;
  for (const auto& [entry, sizes] : entries) {
    const auto agreement =
        trace && miss.has_same_result(*entry) ? entry->sized->agrees(*trace, sizes) : std::optional<bool>(false);
    if (!agreement) continue;
    const bool agrees = *agreement;
    log(Log::kCache, "{}: a trace at sizes {} {}", name_, fmt::join(sizes, ", "),
        agrees ? "agrees with a dynamic capture" : "differs from a dynamic capture");
    const std::unique_lock<std::shared_mutex> lock(mutex_);
    entry->checked->emplace(sizes, agrees);
    if (!agrees) continue;
    entry->sized->keep(trace, sizes);
    entry->last_used = ++clock_;
    ++hits_;
    ++size_checks_;
    right = entry;
    break;
  }
  return right;
}

std::shared_ptr<Cache::Entry> Cache::make(const Miss& miss, const AotOptions& options) {
  // What changes from one reading to the next, as a NaN or what an import sets does, can't be guarded.
  if (miss.tensors.size() != miss.arguments.size()) {
    throw TransformMet("what the function reads is something else each time that it is looked at");
  }
  record_miss(miss.spec, miss.tensors);
  if (options.dynamic) {
    if (auto entry = make_dynamic(miss, options)) return entry;
  }
  const GlobalState state = GlobalState::current();  // before the function can change it
  auto captured = miss.capture(miss.arguments, CaptureExtent::kCallable);
  TensorGuards guards = guards_of(*captured, miss.tensors);
  const auto& questions = captured->questions();
  return entry_of(std::move(captured), questions, std::move(guards), state, miss, options);
}

std::shared_ptr<Cache::Entry> Cache::entry_of(std::shared_ptr<const GraphSource> source,
                                              const std::vector<ValueQuestion>& questions, TensorGuards guards,
                                              const GlobalState& state, const Miss& miss, const AotOptions& options) {
  size_t num_siblings = 0;
  const auto path = questions.empty() ? nullptr : path_of(source->captured(), questions, miss, num_siblings);
  auto entry = std::make_shared<Entry>(miss.spec, state, std::move(guards),
                                       std::make_shared<CompiledFunction>(std::move(source), path));
  entry->path = path;
  if (path && num_siblings >= options.path_limit) {
    run_original(*entry, fmt::format("{} more than {} paths", kTooManyPaths, options.path_limit), /*is_undone=*/true);
  }
  return entry;
}

std::vector<std::shared_ptr<const Cache::Entry>> Cache::siblings(const TreeSpec& spec, const Tensors& tensors) const {
  const GlobalState state = GlobalState::current();
  std::vector<std::shared_ptr<const Entry>> found;
  for (const auto& entry : entries()) {
    if (!entry->path || !entry->original.empty() || !(entry->spec == spec) || !(entry->state == state)) continue;
    Tensors all = tensors;
    entry->code->captured().append_free_variables(all);
    SymbolValues sizes{};
    if (entry->guards.check(all, &sizes)) found.push_back(entry);
  }
  return found;
}

std::shared_ptr<const ValuePath> Cache::path_of(const CapturedFunction& captured,
                                                const std::vector<ValueQuestion>& questions, const Miss& miss,
                                                size_t& num_siblings) const {
  Tensors primals = miss.tensors;
  captured.append_free_variables(primals);
  auto path = std::make_shared<ValuePath>(questions, primals, captured.num_arguments());
  const auto others = siblings(miss.spec, miss.tensors);
  for (const auto& other : others) path->share(*other->path);
  log(Log::kCache, [&] { return fmt::format("{}: captured for the values\n{}", name_, path->text()); });
  num_siblings = others.size();
  return path;
}

std::shared_ptr<const Cache::Entry> Cache::find_on_path(const Candidates& candidates, Tensors& tensors,
                                                        std::vector<at::Tensor>* handed_on) {
  FoundAnswers found;
  std::optional<size_t> differs;  // of the last candidate
  for (const auto& [entry, primals] : candidates) {
    differs = entry->path->first_difference(primals, found);
    if (differs) continue;
    const size_t num_arguments = entry->code->captured().num_arguments();
    if (handed_on != nullptr && entry->code->takes_results())
      *handed_on = entry->path->handed_on(primals, std::move(found));
    tensors.assign(primals.begin(), primals.begin() + static_cast<std::ptrdiff_t>(num_arguments));
    count_hit(*entry);
    return entry;
  }
  std::string difference = candidates.back().first->path->difference(*differs, found);
  const std::unique_lock<std::shared_mutex> lock(mutex_);
  missed_value_ = std::move(difference);
  return nullptr;
}

std::vector<std::shared_ptr<const Cache::Entry>> Cache::sized_otherwise(const Miss& miss) const {
  const auto state = GlobalState::current();
  std::vector<std::shared_ptr<const Entry>> found = entries();
  std::erase_if(found, [&](const auto& entry) {
    if (!(entry->spec == miss.spec) || !(entry->state == state) || !entry->original.empty()) return true;
    return !guards_of(entry->code->captured(), miss.tensors).same_but_geometry(entry->guards);
  });
  return found;
}

std::shared_ptr<Cache::Entry> Cache::make_dynamic(const Miss& miss, const AotOptions& options) {
  constexpr size_t kMostFailures = 3;
  const SizeTrust trust = options.check_sizes ? SizeTrust::kChecked : SizeTrust::kProbed;
  auto like = sized_otherwise(miss);
  if (like.empty() || failed_patterns_ == kMostFailures) return nullptr;
  // Where values decide, which free variables the call reads is known when it has been traced.
  std::shared_ptr<CapturedFunction> own;
  if (std::any_of(like.begin(), like.end(), [](const auto& entry) { return entry->path != nullptr; })) {
    CaptureMode mode = CaptureExtent::kGraphs;
    mode.has_values = true;
    own = miss.capture(miss.arguments, mode);
    if (!own) return nullptr;  // its result has another structure than that of an earlier trace
    std::erase_if(like, [&](const auto& entry) { return !entry->code->captured().reads_same(*own); });
    if (like.empty()) return nullptr;
  }
  std::vector<std::vector<int64_t>> examples;
  for (const auto& entry : like) examples.push_back(entry->guards.geometry());
  std::optional<TensorGuards> guards = guards_of(like.back()->code->captured(), miss.tensors);
  const auto pattern = SizePattern::with(examples, guards->geometry());
  if (!pattern) return nullptr;
  std::string why;
  const auto sized = SizedFunctions::make(*pattern, *guards, miss.arguments, miss.capture, own, trust, why);
  if (!sized) {
    log(Log::kCache, "{}: sizes stay static: {}", name_, why);
    ++failed_patterns_;
    return nullptr;
  }
  log(Log::kCache, "{}: sizes are dynamic now", name_);
  failed_patterns_ = 0;
  guards->generalize(sized->pattern());
  auto entry = entry_of(sized, sized->questions(), std::move(*guards), GlobalState::current(), miss, options);
  entry->sized = sized;
  if (trust == SizeTrust::kProbed) return entry;
  entry->checked.emplace();
  for (const SymbolValues& point : sized->points()) entry->checked->emplace(point, true);
  return entry;
}

void Cache::run_original(Entry& entry, const std::string& what, bool is_undone) {
  const std::unique_lock<std::shared_mutex> lock(mutex_);
  entry.original = what;
  entry.is_done = !is_undone;
  last_original_ = what;
  log(Log::kCache, "{}: runs the function itself because it {}", name_, what);
  count_without_graph();
}

void Cache::insert_refused(TreeSpec spec, const GlobalState& state, const std::type_info& result_type,
                           const std::string& why) {
  auto entry =
      std::make_shared<Entry>(std::move(spec), state, TensorGuards(c10::ArrayRef<const at::Tensor*>()), nullptr);
  entry->result_type = &result_type;
  run_original(*entry, why, /*is_undone=*/true);
  insert(std::move(entry));
  bool is_first = false;
  {
    const std::unique_lock<std::shared_mutex> lock(mutex_);
    is_first = ++refusals_ == 1;
  }
  if (!is_first) return;
  warn(fmt::format("[{}] runs uncompiled, since no graph can be made of this call: {}", name_, why));
}

void Cache::count_given_up() {
  const std::unique_lock<std::shared_mutex> lock(mutex_);
  count_without_graph();
}

void Cache::count_without_graph() {
  constexpr size_t kMost = 16;
  if (++original_entries_ < kMost) return;
  is_always_original_ = true;
  log(Log::kCache, "{}: is no longer captured, because this happened {} times", name_, kMost);
}

void Cache::insert(std::shared_ptr<Entry> entry) {
  const bool has_too_many_paths = entry->original.starts_with(kTooManyPaths);
  std::unique_lock<std::shared_mutex> lock(mutex_);
  entry->last_used = ++clock_;
  if (entry->original.empty()) original_entries_ = 0;
  const auto type_of_result = [](const Entry& one) -> const std::type_info& {
    return one.result_type ? *one.result_type : typeid(void);
  };
  const auto like = std::find_if(entries_.begin(), entries_.end(), [&](const auto& other) {
    return type_of_result(*other) == type_of_result(*entry) && other->spec == entry->spec;
  });
  entry->structure = like == entries_.end() ? ++num_structures_ : (*like)->structure;
  entries_.insert(entries_.begin(), std::move(entry));
  while (limit_ > 0 && entries_.size() > limit_) {
    const auto oldest = std::min_element(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
      return a->last_used.load() < b->last_used.load();
    });
    entries_.erase(oldest);
    ++evictions_;
    log(Log::kCache, "{}: over the limit of {} captures, so the least recently used one is discarded", name_, limit_);
  }
  lock.unlock();
  if (!has_too_many_paths) return;
  warn(
      fmt::format("[{}] the function asks for values that have led to as many captures as path_limit allows, and runs "
                  "uncompiled for other values; keep the decision in tensors, or raise path_limit",
                  name_));
}

// Compares the call with the most recently added entry of the same structure; else with one that has the same tensors,
// so that its constants must differ; else with the most recently added entry.
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
  if (text.empty() && nearest->code) {
    Tensors all = tensors;
    nearest->code->captured().append_free_variables(all);
    text = nearest->guards.first_failure(all, [&](size_t index) {
      const auto& slots = nearest->code->forward_graph().input_slots();
      if (index < spec.num_tensors()) return spec.tensor_path(index);
      const auto& again = nearest->code->plan().captured_arguments;
      return index < slots.size() ? slots[index].path : "the captured " + slots[again.at(index - slots.size())].path;
    });
  }
  return text;
}

void Cache::record_miss(const TreeSpec& spec, const Tensors& tensors) {
  const std::unique_lock<std::shared_mutex> lock(mutex_);
  ++misses_;
  last_miss_ = why_miss(spec, tensors);
  const std::string value = std::exchange(missed_value_, {});
  if (last_miss_.empty()) last_miss_ = value;
  log(Log::kCache, "{}: miss {}: {}", name_, misses_, last_miss_.empty() ? "first call" : last_miss_);
}

std::optional<std::string> Cache::why_eager(const Flattened& arguments) const {
  if (auto why = detail::transform_of(arguments)) return why;
  // Free variables that are derived from arguments are undefined here, and have no transform.
  for (const auto& entry : entries()) {
    if (!entry->code) continue;
    for (const at::Tensor& tensor : entry->code->captured().free_variables()) {
      if (const auto why = detail::transform_of(tensor)) return "a captured tensor " + *why;
    }
  }
  return std::nullopt;
}

void Cache::count_transformed_miss() {
  const std::unique_lock<std::shared_mutex> lock(mutex_);
  ++misses_;
}

void Cache::count_original(const std::string& why) {
  detail::note_eager_call(name_, why);
  const std::unique_lock<std::shared_mutex> lock(mutex_);
  ++originals_;
  ++original_reasons_[why];
  last_original_ = why;
}

CacheStats Cache::stats() const {
  const std::shared_lock<std::shared_mutex> lock(mutex_);
  return {hits_.load(),   misses_,   evictions_, entries_.size(), size_checks_,     originals_.load(),
          last_original_, refusals_, 0,          last_miss_,      original_reasons_};
}

std::vector<std::shared_ptr<const Cache::Entry>> Cache::entries() const {
  const std::shared_lock<std::shared_mutex> lock(mutex_);
  return {entries_.begin(), entries_.end()};
}

void Cache::clear() {
  const std::unique_lock<std::shared_mutex> lock(mutex_);
  entries_.clear();
  original_entries_ = 0;
  is_always_original_ = false;
}

}  // namespace diptych::detail
