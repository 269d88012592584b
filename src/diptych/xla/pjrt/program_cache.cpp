#include "diptych/xla/pjrt/program_cache.h"

#include <cstdlib>

#include "diptych/backend/cache_entry.h"
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
  if (path_.empty()) return {nullptr, {&api}};
  auto [program, fault] = read_entry({kMagic, path_, key_});
  if (!program && fault.empty()) return {nullptr, {&api}};
  if (program) {
    PJRT_Executable_DeserializeAndLoad_Args args{};
    args.client = client_.get();
    args.serialized_executable = program->data();
    args.serialized_executable_size = program->size();
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
  std::string fault;
  try {
    fault = write_entry({kMagic, path_, key_}, serialize(executable));
  } catch (const std::exception& error) {
    fault = error.what();
  }
  if (fault.empty()) {
    log(Log::kCache, "xla: a program was written to '{}'", path_.string());
  } else {
    log(Log::kCache, "xla: '{}' was not written: {}", path_.string(), fault);
  }
}

}  // namespace diptych::detail
