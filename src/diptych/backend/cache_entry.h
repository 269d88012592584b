// Files of caches: what is read is whole and belongs to its key, and none is seen half written.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace diptych::detail {

/// A file that holds what was made of a key. `magic` is the first line of such files, and changes with their format.
struct CacheEntry {
  std::string_view magic;
  std::filesystem::path path;
  std::string_view key;
};

/// What is in an entry's file, or why that is of no use; neither where there is no file.
struct CacheContent {
  std::optional<std::string> content;
  std::string fault;
};

/// Reads an entry. A file that somebody else than this user or root wrote is of no use: caches hold code. Threads: any.
CacheContent read_entry(const CacheEntry& entry);

/// Writes an entry, in one step for whoever reads it meanwhile. Returns why it was not written, or nothing. Threads and
/// processes: any; of several that write one entry the last one's stays.
std::string write_entry(const CacheEntry& entry, std::string_view content);

}  // namespace diptych::detail
