#include "diptych/compile/backward_cache.h"

#include <algorithm>

#include "diptych/base/error.h"
#include "diptych/base/switches.h"

namespace diptych::detail {
namespace {

size_t hash_of(const TaskKey& key) {
  const std::string_view sizes(reinterpret_cast<const char*>(key.sizes.data()), key.sizes.size() * sizeof(int64_t));
  return std::hash<std::string_view>()(key.structure) * 31 + std::hash<std::string_view>()(sizes) * 17 +
         std::hash<std::string_view>()(key.ending);
}

std::string name_of(const TaskCall& call) { return call.node->name(); }

// How many calls of two tasks are alike from the first on.
size_t common_calls(const TaskKey& a, const TaskKey& b) {
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

// Its line of words; the layouts behind it are bytes.
std::string_view words_of_ending(const TaskKey& key) {
  return std::string_view(key.ending).substr(0, key.ending.find('\n'));
}

std::string explain_ending(const TaskKey& was, const TaskKey& is) {
  const auto before = words_of_ending(was), now = words_of_ending(is);
  if (before == now) return "what follows the pass has other inputs";
  if (before.empty() || now.empty()) return now.empty() ? "nothing follows the pass" : fmt::format("{} follows", now);
  return fmt::format("what follows the pass changed {} -> {}", before, now);
}

}  // namespace

BackwardCache& BackwardCache::instance() {
  static auto* const cache = new BackwardCache;
  return *cache;
}

std::shared_ptr<const BackwardEntry> BackwardCache::find(const std::vector<TaskCall>& calls, TaskContents& contents,
                                                         size_t num_results) {
  const size_t hash = hash_of(contents.key());
  const std::lock_guard lock(mutex_);
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto known = begin; known != end; ++known) {
    if (!((*known->second)->key == contents.key())) continue;
    entries_.splice(entries_.begin(), entries_, known->second);
    ++((*known->second)->program ? statistics_.hits : statistics_.eager);
    return *known->second;
  }
  statistics_.misses.push_back(explain(calls, contents.key()));
  log(Log::kBackward, "miss: {}", statistics_.misses.back());
  entries_.push_front(capture(calls, contents, num_results));
  by_hash_.emplace(hash, entries_.begin());
  if (entries_.size() > kMostEntries) {
    const auto oldest = std::prev(entries_.end());
    const auto same = by_hash_.equal_range(hash_of((*oldest)->key));
    by_hash_.erase(std::find_if(same.first, same.second, [&](const auto& entry) { return entry.second == oldest; }));
    entries_.erase(oldest);
  }
  return entries_.front();
}

// Nodes that turn out not to be replayable are left as they are, one after the other.
BackwardCache::Entry BackwardCache::capture(const std::vector<TaskCall>& calls, TaskContents& contents,
                                            size_t num_results) {
  auto entry = std::make_shared<BackwardEntry>();
  entry->key = contents.key();
  for (const TaskCall& call : calls) entry->names.push_back(name_of(call));
  std::vector<bool> is_opaque(calls.size());
  while (!entry->program) {
    try {
      entry->trace = trace_backward(calls, contents, is_opaque, num_results);
      entry->program = std::make_shared<const Program>(entry->trace.graph);
      ++statistics_.captures;
    } catch (const UnsupportedNode& node) {
      log(Log::kBackward, "{} (call {}) is run as it is: {}", entry->names[node.call()], node.call(), node.what());
      if (is_opaque[node.call()] || node.call() == 0) {
        ++statistics_.eager;
        break;
      }
      is_opaque[node.call()] = true;
    }
  }
  return entry;
}

// Compared with the known pass that begins most alike.
std::string BackwardCache::explain(const std::vector<TaskCall>& calls, const TaskKey& key) const {
  const BackwardEntry* nearest = nullptr;
  size_t common = 0;
  for (const Entry& entry : entries_) {
    const size_t count = common_calls(entry->key, key);
    if (nearest != nullptr && count <= common) continue;
    nearest = entry.get();
    common = count;
  }
  if (nearest == nullptr) return "the first backward";
  if (common < calls.size() || common < nearest->names.size()) {
    if (common == calls.size()) return fmt::format("the pass ends after {} autograd nodes", common);
    return fmt::format("new autograd node {} (call {})", name_of(calls[common]), common);
  }
  const auto& known = nearest->key.sizes;
  const auto [was, is] = std::mismatch(known.begin(), known.end(), key.sizes.begin(), key.sizes.end());
  if (known == key.sizes) return explain_ending(nearest->key, key);
  if (was == known.end() || is == key.sizes.end()) return "the number of sizes changed";
  const auto position = static_cast<uint32_t>(is - key.sizes.begin());
  size_t call = 0;
  while (key.parts[call].sizes_end <= position) ++call;
  const uint32_t first = call == 0 ? 0 : key.parts[call - 1].sizes_end;
  return fmt::format("size {} of {} (call {}) changed {} -> {}", position - first, name_of(calls[call]), call, *was,
                     *is);
}

backward_capture::Statistics BackwardCache::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

void BackwardCache::clear() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
  by_hash_.clear();
  statistics_ = {};
}

}  // namespace diptych::detail
