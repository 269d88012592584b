#include "diptych/xla/pjrt/pjrt_api.h"

#include <dlfcn.h>
#include <pthread.h>

#include <c10/core/CPUAllocator.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>

#include "diptych/base/check.h"

namespace diptych::detail {
namespace {

// No plugin older than the header that this file is compiled with has been tried. Later minor versions add fields and
// functions at the end, which an older caller does not see.
constexpr int kOldestMinor = PJRT_API_MINOR;

constexpr const char* kInstall =
    "pip install xla-cpu-pjrt==0.0.1, or set DIPTYCH_PJRT_PLUGIN to the path of a PJRT plugin";

const PJRT_Api* open_plugin(const std::string& path) {
  // XLA logs remarks of its own compiler; the user may ask for them by setting the variable.
  setenv("TF_CPP_MIN_LOG_LEVEL", "2", /*overwrite=*/0);
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = dlerror();
    throw_user_error(fmt::format("[xla] cannot load the PJRT plugin '{}': {}; {}", path,
                                 reason == nullptr ? "no reason is given" : reason, kInstall));
  }
  auto* const get_api = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"));
  const PJRT_Api* const api = get_api == nullptr ? nullptr : get_api();
  DIPTYCH_CHECK(api != nullptr, "[xla] '{}' is not a PJRT plugin: it has no function GetPjrtApi; {}", path, kInstall);
  const auto& version = api->pjrt_api_version;
  DIPTYCH_CHECK(version.major_version == PJRT_API_MAJOR && version.minor_version >= kOldestMinor,
                "[xla] the PJRT plugin '{}' has version {}.{} of the C API, expected {}.{} or a later minor one; {}",
                path, version.major_version, version.minor_version, PJRT_API_MAJOR, kOldestMinor, kInstall);
  return api;
}

// What to do about an error, by its code.
struct Remedy {
  PJRT_Error_Code code;
  std::string_view text;
};
constexpr Remedy kRemedies[] = {
    {PJRT_Error_Code_RESOURCE_EXHAUSTED, "; use smaller sizes, checkpoints, or more devices"},
    {PJRT_Error_Code_UNIMPLEMENTED, "; this plugin lacks it, use another dtype or operator, or another plugin"},
};

std::string_view remedy_of(PJRT_Error_Code code) {
  for (const Remedy& row : kRemedies) {
    if (row.code == code) return row.text;
  }
  return "";
}

// The folder of Python packages that holds this process's LibTorch: <packages>/torch/lib/libc10.so.
std::filesystem::path packages_of_torch() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&c10::GetCPUAllocator), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code ignored;
  return std::filesystem::canonical(info.dli_fname, ignored).parent_path().parent_path().parent_path();
}

}  // namespace

const PjrtApi& PjrtApi::load(const std::string& path) {
  static std::mutex mutex;
  static auto& loaded = *new std::map<std::string, std::unique_ptr<const PjrtApi>>();
  const std::lock_guard lock(mutex);
  auto& entry = loaded[path];
  if (entry == nullptr) {
    std::unique_ptr<const PjrtApi> api(new PjrtApi(path, open_plugin(path)));
    PJRT_Plugin_Initialize_Args args{};
    api->call(api->table_->PJRT_Plugin_Initialize, args, "starting the PJRT plugin");
    entry = std::move(api);
  }
  return *entry;
}

void PjrtApi::raise(PJRT_Error* error, std::string_view task) const {
  PJRT_Error_Message_Args message{.struct_size = sizeof(PJRT_Error_Message_Args),
                                  .extension_start = nullptr,
                                  .error = error,
                                  .message = nullptr,
                                  .message_size = 0};
  table_->PJRT_Error_Message(&message);
  const std::string text(message.message, message.message_size);
  PJRT_Error_GetCode_Args code{};
  code.struct_size = sizeof(code);
  code.error = error;
  drop(table_->PJRT_Error_GetCode(&code));
  drop(error);
  throw_user_error(fmt::format("[xla] {} failed: {}{}", task, text, remedy_of(code.code)));
}

int PjrtApi::count_forks() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { forks_.fetch_add(1); });
  DIPTYCH_ASSERT(registered == 0, "forks cannot be counted: error {}", registered);
  return forks_.load();
}

void PjrtApi::check_process() const {
  DIPTYCH_CHECK(is_alive(),
                "[xla] this process was forked after XLA was started, whose threads it lacks, so a program would hang "
                "here; use the start method 'spawn', or fork before the first XLA program");
}

void PjrtApi::drop(PJRT_Error* error) const noexcept {
  if (error == nullptr) return;
  PJRT_Error_Destroy_Args args{
      .struct_size = sizeof(PJRT_Error_Destroy_Args), .extension_start = nullptr, .error = error};
  table_->PJRT_Error_Destroy(&args);
}

void PjrtApi::await(PJRT_Event* event, std::string_view task) const {
  if (event == nullptr) return;
  const PjrtEventHandle owner(event, {this});
  PJRT_Event_Await_Args args{};
  args.event = event;
  call(table_->PJRT_Event_Await, args, task);
}

std::string find_pjrt_plugin() {
  if (const char* const path = std::getenv("DIPTYCH_PJRT_PLUGIN"); path != nullptr && *path != '\0') return path;
  const auto installed = packages_of_torch() / "xla_plugins" / "xla_cpu_pjrt" / "xla_cpu_pjrt.so";
  std::error_code ignored;
  DIPTYCH_CHECK(std::filesystem::exists(installed, ignored), "[xla] found no PJRT plugin at '{}'; {}",
                installed.string(), kInstall);
  return installed.string();
}

}  // namespace diptych::detail
