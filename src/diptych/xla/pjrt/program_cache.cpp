#include "diptych/xla/pjrt/program_cache.h"

#include <cstdlib>

#include "diptych/base/check.h"
#include "diptych/base/log.h"

namespace diptych::detail {
namespace {

constexpr CacheKind kPrograms{.backend = "xla",
                              .what = "programs",
                              .magic = "diptych xla program 1\n",
                              .mark = ".xla",
                              .bound = uint64_t{1} << 30};

std::filesystem::path program_folder() {
  const char* const value = std::getenv("DIPTYCH_XLA_CACHE");
  if (value == nullptr || *value == '\0') return user_cache_folder("programs");
  if (std::string_view(value) == "0") return {};
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
    : client_(client),
      folder_(program_folder(), kPrograms),
      key_(fmt::format("{}\n{}\n{}", client.fingerprint(), options, module)) {}

PjrtLoadedExecutableHandle ProgramCache::load() const {
  const PjrtApi& api = client_.api();
  const auto program = folder_.load(key_);
  if (!program) return {nullptr, {&api}};
  PJRT_Executable_DeserializeAndLoad_Args args{};
  args.client = client_.get();
  args.serialized_executable = program->data();
  args.serialized_executable_size = program->size();
  try {
    api.call(api.table().PJRT_Executable_DeserializeAndLoad, args, "loading a compiled program");
  } catch (const UserError& error) {
    log(Log::kCache, "xla: an entry of '{}' is of no use and is compiled again: {}", folder_.path().string(),
        error.what());
    return {nullptr, {&api}};
  }
  log(Log::kCache, "xla: a program was read from '{}'", folder_.path().string());
  return {args.loaded_executable, {&api}};
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

void ProgramCache::store(PJRT_LoadedExecutable* executable) {
  if (folder_.path().empty()) return;
  try {
    if (folder_.store(key_, serialize(executable))) {
      log(Log::kCache, "xla: a program was written to '{}'", folder_.path().string());
    }
  } catch (const std::exception& error) {
    log(Log::kCache, "xla: a program was not written to '{}': {}", folder_.path().string(), error.what());
  }
}

}  // namespace diptych::detail
