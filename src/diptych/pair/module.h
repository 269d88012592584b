// dp::aot_module: a torch::nn module compiled with its parameters and buffers as named inputs. This is a separate
// header because torch's module header is slow to read.
#pragma once
#include "diptych/compile/aot.h"
#include "diptych/pair/pair.h"
#include "diptych/tree/module.h"

namespace diptych {
namespace detail {

struct CallForward {
  template <class Module, class... A>
  auto operator()(Module& module, A&... arguments) {
    return module->forward(arguments...);
  }
};

}  // namespace detail

/// A module whose forward is compiled. Parameters and buffers are the first inputs, named as in the module, under
/// "module"; gradients land on the module's own parameters, and buffers such as BatchNorm's are updated as in eager.
template <class Module>
class AotModule {
 public:
  AotModule(Module module, AotOptions options)
      : module_(std::move(module)), forward_(detail::CallForward{}, named(std::move(options))) {}
  template <class... A>
  auto operator()(A&&... arguments) {
    return forward_(module_, std::forward<A>(arguments)...);
  }
  Module& module() { return module_; }
  CacheStats stats() const { return forward_.stats(); }
  std::vector<std::shared_ptr<const detail::CompiledFunction>> captures() const { return forward_.captures(); }

 private:
  static AotOptions named(AotOptions options) {
    options.argument_names.insert(options.argument_names.begin(), "module");
    return options;
  }
  Module module_;
  Aot<detail::CallForward> forward_;
};

/// Compiles `module->forward`. `module` is a std::shared_ptr to a module, or a holder such as torch::nn::Linear.
template <class Module>
AotModule<Module> aot_module(Module module, AotOptions options = {.name = "module"}) {
  return AotModule<Module>(std::move(module), std::move(options));
}

}  // namespace diptych
