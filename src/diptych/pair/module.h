// dp::aot_module: a torch::nn module compiled with its parameters and buffers as named inputs. This is a separate
// header because torch's module header is slow to read.
#pragma once
#include <torch/nn/pimpl.h>

#include "diptych/compile/aot.h"
#include "diptych/pair/pair.h"
#include "diptych/tree/module.h"
#include "diptych/tree/module_like.h"

namespace diptych {
namespace detail {

struct CallForward {
  template <class Module, class... A>
  auto operator()(Module& module, A&... arguments) {
    return module->forward(arguments...);
  }
};

/// Gives a compiled module the one forward() of the module's class, by which torch::nn::Sequential calls it; a class
/// whose forward() is overloaded or a template gives it none.
template <class Impl, class Forward>
struct ForwardOf {};
template <class Impl, class Class, class Result, class... A>
struct ForwardOf<Impl, Result (Class::*)(A...)> {
  Result forward(A... arguments) { return static_cast<Impl*>(this)->call(std::forward<A>(arguments)...); }
};
template <class Impl, class Class, class Result, class... A>
struct ForwardOf<Impl, Result (Class::*)(A...) const> : ForwardOf<Impl, Result (Class::*)(A...)> {};

struct NoForward {};
template <class Class, class = void>
struct TypeOfForward {
  using Type = NoForward;
};
template <class Class>
struct TypeOfForward<Class, std::void_t<decltype(&Class::forward)>> {
  using Type = decltype(&Class::forward);
};

template <class Module>
using ModuleClass = std::remove_reference_t<decltype(*std::declval<Module&>())>;

}  // namespace detail

/// What an AotModule holds, as a torch::nn::LinearImpl is what a Linear holds.
template <class Holder>
class AotModuleImpl : public detail::ModuleLike,
                      public detail::ForwardOf<AotModuleImpl<Holder>,
                                               typename detail::TypeOfForward<detail::ModuleClass<Holder>>::Type> {
 public:
  AotModuleImpl(Holder module, AotOptions options)
      : ModuleLike(*module),
        module_(std::move(module)),
        options_(options),
        forward_(detail::CallForward{}, named(std::move(options))) {}

  template <class... A>
  auto call(A&&... arguments) {
    return forward_(module_, std::forward<A>(arguments)...);
  }
  /// Another one, of a clone of the module, compiled anew with the same options.
  std::shared_ptr<torch::nn::Module> clone(const std::optional<torch::Device>& device = std::nullopt) const override {
    auto copy = std::dynamic_pointer_cast<detail::ModuleClass<Holder>>(module_->clone(device));
    return std::make_shared<AotModuleImpl>(Holder(std::move(copy)), options_);
  }
  Holder& module() { return module_; }
  const Aot<detail::CallForward>& aot() const { return forward_; }

 private:
  static AotOptions named(AotOptions options) {
    options.argument_names.insert(options.argument_names.begin(), "module");
    return options;
  }
  Holder module_;
  AotOptions options_;
  Aot<detail::CallForward> forward_;
};

/// A module whose forward is compiled, as a holder, so that it is registered in other modules and stands in
/// torch::nn::Sequential; copies are the same module. Parameters, buffers and children are the module's, under the same
/// names; those that are registered in it later belong to the module alone. In graphs, parameters and buffers are the
/// first inputs, under "module"; gradients land on the module's own parameters, and buffers such as BatchNorm's are
/// updated as in eager.
template <class Module>
class AotModule : public torch::nn::ModuleHolder<AotModuleImpl<Module>> {
 public:
  using torch::nn::ModuleHolder<AotModuleImpl<Module>>::ModuleHolder;
  AotModule(Module module, AotOptions options)
      : AotModule(std::make_shared<AotModuleImpl<Module>>(std::move(module), std::move(options))) {}

  template <class... A>
  auto operator()(A&&... arguments) {
    return this->get()->call(std::forward<A>(arguments)...);
  }
  Module& module() { return this->get()->module(); }
  CacheStats stats() const { return this->get()->aot().stats(); }
  std::vector<std::shared_ptr<const detail::CompiledFunction>> captures() const {
    return this->get()->aot().captures();
  }
};

/// Compiles `module->forward`. `module` is a std::shared_ptr to a module, or a holder such as torch::nn::Linear.
template <class Module>
AotModule<Module> aot_module(Module module, AotOptions options = {.name = "module"}) {
  return AotModule<Module>(std::move(module), std::move(options));
}

}  // namespace diptych
