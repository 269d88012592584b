#include "diptych/native/jit/jit.h"

#include <ATen/Version.h>
#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "diptych/backend/cache_folder.h"
#include "diptych/base/check.h"
#include "diptych/base/environment.h"
#include "diptych/base/log.h"
#include "diptych/base/torch_library.h"
#include "diptych/native/jit/living_code.h"
#include "diptych/native/jit/llvm_library.h"
#include "diptych/native/jit/profiler_names.h"

namespace diptych::detail {
namespace {

void* find_function(const char* name) {
  if (void* address = dlsym(RTLD_DEFAULT, name)) return address;
  return find_in_torch(name);  // SLEEF's
}

// LLVM's library throws what the standard library has; here it becomes the user's error.
template <class Make>
auto with_user_errors(const std::string& name, Make make) {
  try {
    return make();
  } catch (const UserError&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw_user_error(fmt::format("[native] LLVM could not compile {}: {}; mend its text", name, error.what()));
  }
}

HostTarget target_by_environment() {
  const char* const cpu = std::getenv("DIPTYCH_CPU");
  if (cpu == nullptr || *cpu == '\0') return find_host_target();
  const auto target = find_host_as(cpu);
  DIPTYCH_CHECK(
      target, "[DIPTYCH_CPU] got '{}', expected a CPU by LLVM's name, such as x86-64-v3; correct it, or unset it", cpu);
  return *target;
}

// All that an object is made of.
std::string key_of(const std::string& text) {
  const auto& host = host_target();
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}", compiler_version(), host.triple, host.cpu, host.features,
                     host.vector_bytes, text);
}

constexpr CacheKind kKernels{.backend = "native",
                             .what = "kernels",
                             .magic = "diptych kernel 1\n",
                             .mark = ".kernel",
                             .bound = uint64_t{256} << 20};

CacheFolder& object_cache() {
  // Compilers in the background may still run when static objects are destroyed.
  static auto* const cache = new CacheFolder(keeps_kernels() ? user_cache_folder("kernels") : "", kKernels);
  return *cache;
}

std::string object_of(const std::string& key, const std::string& text, const std::string& name) {
  if (auto kept = object_cache().load(key)) {
    log(Log::kKernels, "{} was read from the cache, {} bytes", name, kept->size());
    return std::move(*kept);
  }
  const auto start = std::chrono::steady_clock::now();
  auto object = compile_module(text, name, host_target(), CodeForm::kObject);
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  log(Log::kKernels, "{} was compiled in {:.1f} ms, {} bytes", name, time.count(), object.size());
  object_cache().store(key, object);
  return object;
}

}  // namespace

bool keeps_kernels() { return is_on("DIPTYCH_KERNEL_CACHE", true); }

const HostTarget& host_target() {
  static const auto* const target = new HostTarget(target_by_environment());
  return *target;
}

std::shared_ptr<const MachineCode> compile_llvm(const std::string& text, const std::string& name) {
  auto key = key_of(text);
  if (auto code = LivingCode::find(key)) return code;
  return with_user_errors(name, [&] {
    auto loaded = load_object(object_of(key, text, name), name, find_function, names_kernels());
    if (names_kernels()) write_perf_names(loaded.functions);
    return LivingCode::publish(std::make_shared<LivingCode>(std::move(key), name, std::move(loaded)));
  });
}

std::string assembly(const std::string& text, const std::string& name) {
  return with_user_errors(name, [&] { return compile_module(text, name, host_target(), CodeForm::kAssembly); });
}

}  // namespace diptych::detail
