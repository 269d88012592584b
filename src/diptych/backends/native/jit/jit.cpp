#include "diptych/backends/native/jit/jit.h"

#include <ATen/Version.h>
#include <dlfcn.h>

#include <stdexcept>
#include <utility>

#include "diptych/backends/native/jit/llvm_library.h"
#include "diptych/base/error.h"

namespace diptych::detail {
namespace {

// libtorch_cpu, which has SLEEF's functions. A Python extension's libraries are not among those that the process as a
// whole is searched for, so it is asked by its own handle.
void* torch_library() {
  static void* const handle = [] {
    Dl_info info{};
    if (dladdr(reinterpret_cast<void*>(&at::get_cpu_capability), &info) == 0) return static_cast<void*>(nullptr);
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  return handle;
}

void* find_function(const char* name) {
  if (void* address = dlsym(RTLD_DEFAULT, name)) return address;
  return torch_library() == nullptr ? nullptr : dlsym(torch_library(), name);
}

class LoadedCode : public MachineCode {
 public:
  LoadedCode(LoadedObject object, std::string name) : object_(std::move(object)), name_(std::move(name)) {}
  void* address(const std::string& function) const override {
    const auto found = object_.functions.find(function);
    DIPTYCH_CHECK(found != object_.functions.end(),
                  "[native] got '{}', which is no function of {}; name one that its text defines", function, name_);
    return found->second;
  }

 private:
  LoadedObject object_;
  std::string name_;
};

// LLVM's library throws what the standard library has; here it becomes the user's error.
template <class Make>
auto with_user_errors(const std::string& name, Make make) {
  try {
    return make();
  } catch (const std::runtime_error& error) {
    throw_user_error(fmt::format("[native] LLVM could not compile {}: {}; mend its text", name, error.what()));
  }
}

}  // namespace

const HostTarget& host_target() {
  static const HostTarget target = find_host_target();
  return target;
}

std::shared_ptr<const MachineCode> compile_llvm(const std::string& text, const std::string& name) {
  return with_user_errors(name, [&]() -> std::shared_ptr<const MachineCode> {
    const auto object = compile_module(text, name, host_target(), CodeForm::kObject);
    return std::make_shared<LoadedCode>(load_object(object, name, find_function), name);
  });
}

std::string assembly(const std::string& text, const std::string& name) {
  return with_user_errors(name, [&] { return compile_module(text, name, host_target(), CodeForm::kAssembly); });
}

}  // namespace diptych::detail
