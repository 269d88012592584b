#include "diptych/base/torch_library.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

namespace diptych::detail {

void* find_in_torch(const char* function) {
  static void* const library = [] {
    Dl_info info{};
    if (dladdr(reinterpret_cast<void*>(&at::get_num_threads), &info) == 0) return static_cast<void*>(nullptr);
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  return library == nullptr ? nullptr : dlsym(library, function);
}

}  // namespace diptych::detail
