#include "diptych/backends/xla/program_cache.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "diptych/base/error.h"
#include "diptych/base/switches.h"
#include "diptych/graph/checksum.h"

namespace diptych::detail {
namespace {

constexpr std::string_view kMagic = "diptych xla program 1\n";

std::filesystem::path cache_folder() {
  const char* const value = std::getenv("DIPTYCH_XLA_CACHE");
  if (value == nullptr || *value == '\0') return {};
  std::filesystem::path folder = value;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  DIPTYCH_CHECK(std::filesystem::is_directory(folder), "[xla] cannot make the folder '{}' of DIPTYCH_XLA_CACHE: {}",
                folder.string(), error.message());
  return folder;
}

// The text of an entry: magic, checksum of the rest, length of the key, key, program.
std::string entry_text(std::string_view key, std::string_view program) {
  const std::string rest = fmt::format("{:016x}{}{}", key.size(), key, program);
  return fmt::format("{}{:016x}{}", kMagic, checksum(rest), rest);
}

constexpr size_t kHeader = kMagic.size() + 16;

// Returns what is wrong with an entry's text, or nothing.
std::string_view find_fault(std::string_view text, std::string_view key) {
  if (text.size() < kHeader + 16 || !text.starts_with(kMagic)) return "it is not an entry";
  const std::string_view rest = text.substr(kHeader);
  if (fmt::format("{:016x}", checksum(rest)) != text.substr(kMagic.size(), 16)) return "its checksum is wrong";
  return rest.starts_with(fmt::format("{:016x}{}", key.size(), key)) ? "" : "it belongs to another program";
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

PjrtExecutableHandle executable_of(const PjrtApi& api, PJRT_LoadedExecutable* executable) {
  PJRT_LoadedExecutable_GetExecutable_Args args{};
  args.loaded_executable = executable;
  api.call(api.table().PJRT_LoadedExecutable_GetExecutable, args, "asking for a program");
  return {args.executable, {&api}};
}

ProgramCache::ProgramCache(const PjrtClient& client, std::string_view module, std::string_view options)
    : client_(client) {
  const std::filesystem::path folder = cache_folder();
  if (folder.empty()) return;
  key_ = fmt::format("{}\n{}\n{}", client.fingerprint(), options, module);
  path_ = folder / fmt::format("{:016x}.xla", checksum(key_));
}

PjrtLoadedExecutableHandle ProgramCache::load() const {
  const PjrtApi& api = client_.api();
  std::error_code ignored;
  if (path_.empty() || !std::filesystem::exists(path_, ignored)) return {nullptr, {&api}};
  const std::string text = read_file(path_);
  std::string fault(find_fault(text, key_));
  if (fault.empty()) {
    const std::string_view program = std::string_view(text).substr(kHeader + 16 + key_.size());
    PJRT_Executable_DeserializeAndLoad_Args args{};
    args.client = client_.get();
    args.serialized_executable = program.data();
    args.serialized_executable_size = program.size();
    try {
      api.call(api.table().PJRT_Executable_DeserializeAndLoad, args, "loading a compiled program");
      log(Log::kCache, "xla: a program was read from '{}'", path_.string());
      return {args.loaded_executable, {&api}};
    } catch (const UserError& error) {
      fault = error.what();
    }
  }
  log(Log::kCache, "xla: '{}' is of no use and is compiled again: {}", path_.string(), fault);
  return {nullptr, {&api}};
}

std::string ProgramCache::serialize(PJRT_LoadedExecutable* executable) const {
  const PjrtApi& api = client_.api();
  const PjrtExecutableHandle inner = executable_of(api, executable);
  PJRT_Executable_Serialize_Args args{};
  args.executable = inner.get();
  api.call(api.table().PJRT_Executable_Serialize, args, "writing a compiled program");
  std::string bytes(args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_executable_deleter(args.serialized_executable);
  return bytes;
}

void ProgramCache::store(PJRT_LoadedExecutable* executable) const {
  if (path_.empty()) return;
  // Processes and threads that compile the same program write a file each; the last one stays.
  static std::atomic<uint64_t> count = 0;
  const std::filesystem::path temporary = fmt::format("{}.{}.{}", path_.string(), getpid(), count++);
  try {
    std::ofstream file(temporary, std::ios::binary);
    file << entry_text(key_, serialize(executable));
    file.close();
    if (file.good()) {
      std::filesystem::rename(temporary, path_);
      log(Log::kCache, "xla: a program was written to '{}'", path_.string());
      return;
    }
    log(Log::kCache, "xla: '{}' was not written: the folder is full or read-only", path_.string());
  } catch (const std::exception& error) {
    log(Log::kCache, "xla: '{}' was not written: {}", path_.string(), error.what());
  }
  std::error_code ignored;
  std::filesystem::remove(temporary, ignored);
}

}  // namespace diptych::detail
