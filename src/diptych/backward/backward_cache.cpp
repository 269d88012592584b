#include "diptych/backward/backward_cache.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "diptych/base/error.h"
#include "diptych/base/error_words.h"
#include "diptych/base/log.h"
#include "diptych/base/switches.h"
#include "diptych/graph/map_sizes.h"
#include "diptych/interpreter/sizes_input.h"
#include "diptych/passes/generalize_sizes.h"
#include "diptych/scan_passes/pipeline.h"

namespace diptych::detail {
namespace {

size_t hash_of(const RunKey& key) {
  const std::hash<std::string_view> hash;
  size_t combined = key.num_results;
  for (const std::string* part : {&key.structure, &key.ending, &key.surroundings, &key.backend})
    combined = combined * 31 + hash(*part);
  return combined;
}

std::string name_of(const RunCall& call) { return call.node->name(); }

// Returns how many calls two runs have in common from the first on.
size_t common_calls(const RunKey& a, const RunKey& b) {
  const auto [left, right] =
      std::mismatch(a.structure.begin(), a.structure.end(), b.structure.begin(), b.structure.end());
  const auto same = static_cast<uint32_t>(left - a.structure.begin());
  size_t count = 0;
  while (count < std::min(a.parts.size(), b.parts.size()) && a.parts[count].structure_end <= same &&
         a.parts[count].structure_end == b.parts[count].structure_end) {
    ++count;
  }
  return count;
}

// See Note [Hooks as nodes].
bool hooks_read_what_may_change(const BackwardTrace& trace, const std::vector<RunCall>& calls) {
  const bool all_constant =
      std::all_of(trace.hooks.begin(), trace.hooks.end(), [](const HookUse& use) { return use.graph->is_constant; });
  return !all_constant && (trace.runs_user_code || !hooks_hold(trace.hooks, calls));
}

void make_runnable(BackwardEntry& entry, const RunContents& contents) {
  entry.program = std::make_shared<const Program>(lower(Stage::kBackwardRun, entry.trace.graph));
  if (const RunBackend* backend = contents.other_backend())
    entry.executable = compile_run(*backend, entry.program->graph(), entry.trace.accumulations);
}

// Makes `entry` right for all sizes of `pattern`; returns false if there is no graph for them.
bool unify_traces(const std::vector<RunCall>& calls, RunContents& contents, const SizePattern& pattern,
                  BackwardEntry& entry) {
  const auto actual = *pattern.match(contents.key().sizes);
  const TraceAt trace = [&](const SymbolValues& symbols) -> std::optional<std::vector<Graph>> {
    try {
      auto traced = trace_backward(calls, contents, entry.stays_eager, pattern.at(symbols), entry.hooks);
      if (symbols == actual) entry.trace = traced;
      return std::vector{std::move(traced.graph)};
    } catch (const std::exception& error) {
      log(Log::kBackwardVerbose, "no trace at {}: {}", fmt::join(symbols, ", "), words_of(error));
      return std::nullopt;
    }
  };
  std::string why;
  auto general = generalize_sizes(pattern, actual, trace, SizeTrust::kChecked, why);
  if (!general) {
    log(Log::kBackward, "sizes stay static: {}", why);
    return false;
  }
  entry.general = std::move(general->graphs[0]);
  for (const SymbolValues& point : general->points) entry.checked.emplace(point, true);
  entry.trace.graph = entry.general;
  entry.trace.graph.add_input(sizes_meta(pattern.num_symbols(), actual), {SlotKind::kArgument, "sizes"});
  make_runnable(entry, contents);
  entry.pattern = std::move(general->pattern);
  return true;
}

// Logs a line for each call, with its part of the key, and the graph.
void log_entry(const BackwardEntry& entry) {
  if (!log_enabled(Log::kBackwardVerbose)) return;
  RunKey::Part last{0, 0};
  for (size_t i = 0; i < entry.names.size(); ++i) {
    const RunKey::Part& part = entry.key.parts[i];
    const auto structure =
        std::string_view(entry.key.structure).substr(last.structure_end, part.structure_end - last.structure_end);
    log(Log::kBackwardVerbose, "call {}: {}{}, key {:016x} of {} bytes, sizes {}", i, entry.names[i],
        entry.stays_eager[i] ? " (stays eager)" : "", std::hash<std::string_view>()(structure), structure.size(),
        fmt::join(entry.key.sizes.begin() + last.sizes_end, entry.key.sizes.begin() + part.sizes_end, ","));
    last = part;
  }
  if (entry.program) log(Log::kBackwardVerbose, "{}", entry.program->graph().code());
}

// Returns the readable first line of an ending's key; the rest is binary.
std::string_view words_of_ending(const RunKey& key) {
  return std::string_view(key.ending).substr(0, key.ending.find('\n'));
}

std::string explain_ending(const RunKey& was, const RunKey& is) {
  const auto before = words_of_ending(was), now = words_of_ending(is);
  if (before == now) return "what follows the run has other inputs";
  if (before.empty() || now.empty()) return now.empty() ? "nothing follows the run" : fmt::format("{} follows", now);
  return fmt::format("what follows the run changed {} -> {}", before, now);
}

}  // namespace

BackwardCache& BackwardCache::instance() {
  static auto* const cache = new BackwardCache;
  return *cache;
}

// An entry whose hooks all run live stands for any hooks, and comes last.
std::optional<BackwardCache::Found> BackwardCache::find_known(size_t hash, const std::vector<RunCall>& calls,
                                                              const RunKey& key) {
  const auto [begin, end] = by_structure_.equal_range(hash);
  std::optional<std::pair<std::list<Entry>::iterator, SymbolValues>> by_any_hooks;
  for (auto known = begin; known != end; ++known) {
    const BackwardEntry& entry = **known->second;
    if (!entry.key.same_structure(key)) continue;
    SymbolValues symbols{};
    if (entry.pattern) {
      const auto match = entry.pattern->match(key.sizes);
      const auto checked = match ? entry.checked.find(*match) : entry.checked.end();
      if (checked == entry.checked.end() || !checked->second) continue;
      symbols = *match;
    } else if (entry.key.sizes != key.sizes) {
      continue;
    }
    if (entry.trace.hooks.empty()) {
      by_any_hooks = {known->second, symbols};
    } else if (hooks_hold(entry.trace.hooks, calls)) {
      return used(known->second, symbols);
    }
  }
  return by_any_hooks ? std::optional(used(by_any_hooks->first, by_any_hooks->second)) : std::nullopt;
}

bool BackwardCache::hooks_change(size_t hash, const RunKey& key) const {
  const auto known = of_structure(hash, key);
  const auto differs_in_hooks = [&](const Entry& entry) {
    const bool has_sizes =
        entry->pattern ? entry->pattern->match(key.sizes).has_value() : entry->key.sizes == key.sizes;
    return has_sizes && !entry->trace.hooks.empty();
  };
  return std::count_if(known.begin(), known.end(), differs_in_hooks) >= static_cast<std::ptrdiff_t>(kMostHooks);
}

BackwardCache::Found BackwardCache::used(std::list<Entry>::iterator place, const SymbolValues& symbols) {
  entries_.splice(entries_.begin(), entries_, place);
  return Found{entries_.front(), symbols, std::nullopt};
}

std::optional<BackwardCache::Found> BackwardCache::find_by_trace(size_t hash, const std::vector<RunCall>& calls,
                                                                 RunContents& contents) {
  const RunKey& key = contents.key();
  const auto [begin, end] = by_structure_.equal_range(hash);
  for (auto known = begin; known != end; ++known) {
    BackwardEntry& entry = **known->second;
    if (!entry.pattern || !entry.key.same_structure(key) || !hooks_hold(entry.trace.hooks, calls)) continue;
    const auto symbols = entry.pattern->match(key.sizes);
    if (!symbols || entry.checked.count(*symbols) != 0) continue;
    bool agrees = false;
    try {
      const auto traced = trace_backward(calls, contents, entry.stays_eager, key.sizes, entry.hooks);
      agrees = is_instance(entry.general, entry.pattern->named(*symbols), traced.graph);
    } catch (const LostNode&) {
      throw;
    } catch (const std::exception& error) {
      log(Log::kBackwardVerbose, "no trace at {}: {}", fmt::join(*symbols, ", "), words_of(error));
    }
    entry.checked.emplace(*symbols, agrees);
    if (!agrees) continue;
    Found found = used(known->second, *symbols);
    found.was_traced = true;
    return found;
  }
  return std::nullopt;
}

void BackwardCache::add(size_t hash, Entry entry) {
  entries_.push_front(std::move(entry));
  by_structure_.emplace(hash, entries_.begin());
  if (entries_.size() <= kMostEntries) return;
  const auto oldest = std::prev(entries_.end());
  const size_t forgotten = hash_of((*oldest)->key);
  const auto same = by_structure_.equal_range(forgotten);
  by_structure_.erase(std::find_if(same.first, same.second, [&](const auto& known) { return known.second == oldest; }));
  if (by_structure_.find(forgotten) == by_structure_.end()) failures_.erase(forgotten);
  entries_.erase(oldest);
}

BackwardCache::Found BackwardCache::find(const std::vector<RunCall>& calls, RunContents& contents) {
  const size_t hash = hash_of(contents.key());
  const std::lock_guard lock(mutex_);
  if (auto known = find_known(hash, calls, contents.key())) return *known;
  if (auto right = find_by_trace(hash, calls, contents)) return *right;
  Miss miss = explain(calls, contents.key());
  const HookMode hooks = hooks_change(hash, contents.key()) ? HookMode::kNone : HookMode::kAll;
  auto entry = generalize(hash, calls, contents, hooks);
  if (entry) miss.reason += ": now dynamic";
  log(Log::kBackward, "miss: {}", miss.reason);
  if (!entry) entry = capture(calls, contents, hooks);
  log_entry(*entry);
  add(hash, entry);
  return {entry, entry->pattern ? *entry->pattern->match(contents.key().sizes) : SymbolValues{}, std::move(miss)};
}

// Nodes that turn out not to be replayable become eager nodes, one after the other; so do hooks that read what others
// may change.
std::shared_ptr<BackwardEntry> BackwardCache::capture(const std::vector<RunCall>& calls, RunContents& contents,
                                                      HookMode hooks) {
  auto entry = std::make_shared<BackwardEntry>();
  entry->hooks = hooks;
  entry->key = contents.key();
  entry->stays_eager.resize(calls.size());
  for (const RunCall& call : calls) entry->names.push_back(name_of(call));
  while (!entry->program) {
    try {
      entry->trace = trace_backward(calls, contents, entry->stays_eager, contents.key().sizes, entry->hooks);
      if (entry->hooks == HookMode::kAll && hooks_read_what_may_change(entry->trace, calls)) {
        entry->hooks = HookMode::kConstant;
        continue;
      }
      make_runnable(*entry, contents);
    } catch (const UnsupportedNode& node) {
      log(Log::kBackward, "{} (call {}) stays eager: {}", entry->names[node.call()], node.call(), node.what());
      if (entry->stays_eager[node.call()] && entry->hooks != HookMode::kNone) {
        entry->hooks = HookMode::kNone;
        continue;
      }
      if (entry->stays_eager[node.call()] || node.call() == 0) break;
      entry->stays_eager[node.call()] = true;
    }
  }
  return entry;
}

std::shared_ptr<BackwardEntry> BackwardCache::generalize(size_t hash, const std::vector<RunCall>& calls,
                                                         RunContents& contents, HookMode hooks) {
  const auto known = of_structure(hash, contents.key());
  if (known.empty() || failures_[hash] == kMostFailures) return nullptr;
  std::vector<std::vector<int64_t>> examples;
  for (const Entry& entry : known) examples.push_back(entry->key.sizes);
  const auto pattern = SizePattern::with(examples, contents.key().sizes);
  if (!pattern) return nullptr;
  auto entry = std::make_shared<BackwardEntry>();
  entry->key = contents.key();
  entry->names = known.front()->names;
  entry->stays_eager = known.front()->stays_eager;
  entry->hooks = std::max(known.front()->hooks, hooks);
  if (!unify_traces(calls, contents, *pattern, *entry) ||
      (entry->hooks == HookMode::kAll && hooks_read_what_may_change(entry->trace, calls))) {
    ++failures_[hash];
    return nullptr;
  }
  return entry;
}

std::vector<BackwardCache::Entry> BackwardCache::of_structure(size_t hash, const RunKey& key) const {
  std::vector<Entry> entries;
  const auto [begin, end] = by_structure_.equal_range(hash);
  for (auto known = begin; known != end; ++known) {
    const Entry& entry = *known->second;
    if (entry->key.same_structure(key) && entry->program) entries.push_back(entry);
  }
  return entries;
}

// Compares with the known run that has the most calls in common from the first on.
BackwardCache::Miss BackwardCache::explain(const std::vector<RunCall>& calls, const RunKey& key) const {
  const BackwardEntry* nearest = nullptr;
  size_t common = 0;
  for (const Entry& entry : entries_) {
    const size_t count = common_calls(entry->key, key);
    if (nearest != nullptr && count <= common) continue;
    nearest = entry.get();
    common = count;
  }
  if (nearest == nullptr) return {"first backward", "the first backward"};
  if (common < calls.size() || common < nearest->names.size()) {
    if (common == calls.size()) {
      return {"fewer autograd nodes", fmt::format("the run ends after {} autograd nodes", common)};
    }
    return {"new autograd node", fmt::format("new autograd node {} (call {})", name_of(calls[common]), common)};
  }
  if (nearest->key.backend != key.backend) {
    return {"other backend", fmt::format("backend {} changed to {}", nearest->key.backend, key.backend)};
  }
  if (nearest->key.surroundings != key.surroundings) {
    return {"other state", fmt::format("{} changed to {}", nearest->key.surroundings, key.surroundings)};
  }
  if (nearest->key.ending == key.ending && nearest->key.num_results != key.num_results) {
    return {"other results", fmt::format("the run returns {} gradients, and a captured one returns {}", key.num_results,
                                         nearest->key.num_results)};
  }
  const auto& known = nearest->key.sizes;
  const auto [was, is] = std::mismatch(known.begin(), known.end(), key.sizes.begin(), key.sizes.end());
  if (known == key.sizes && nearest->key.ending == key.ending)
    return {"other hooks", "a hook is another one, or reads something else"};
  if (known == key.sizes) return {"other ending", explain_ending(nearest->key, key)};
  if (was == known.end() || is == key.sizes.end()) return {"size changed", "the number of sizes changed"};
  const auto position = static_cast<uint32_t>(is - key.sizes.begin());
  size_t call = 0;
  while (key.parts[call].sizes_end <= position) ++call;
  const uint32_t first = call == 0 ? 0 : key.parts[call - 1].sizes_end;
  return {"size changed", fmt::format("size {} of {} (call {}) changed {} -> {}", position - first,
                                      name_of(calls[call]), call, *was, *is)};
}

std::vector<std::shared_ptr<const BackwardEntry>> BackwardCache::entries() {
  const std::lock_guard lock(mutex_);
  return {entries_.begin(), entries_.end()};
}

void BackwardCache::clear() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
  by_structure_.clear();
  failures_.clear();
}

}  // namespace diptych::detail
