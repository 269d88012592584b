// Visiting torch::nn modules and their holders: for each module of the tree, in the order of named_modules(), its
// identity, its class, its training flag and how many parameters, buffers and submodules it has; then all parameters in
// the order of named_parameters(), then all buffers in the order of named_buffers(), under those names. This is a
// separate header because torch's is slow to compile.
#pragma once
#include <torch/nn/module.h>

#include <memory>
#include <type_traits>
#include <typeinfo>

#include "diptych/tree/tree.h"

namespace diptych {
namespace detail {

using NamedTensors = torch::OrderedDict<std::string, at::Tensor>;
using NamedModules = torch::OrderedDict<std::string, std::shared_ptr<torch::nn::Module>>;

/// Returns what a module itself has registered, without the copies that named_parameters(), named_buffers() and
/// named_children() make: a guard reads these at every call.
const NamedTensors& own_parameters(const torch::nn::Module& module);
const NamedTensors& own_buffers(const torch::nn::Module& module);
const NamedModules& own_children(const torch::nn::Module& module);
int64_t count_defined(const NamedTensors& tensors);

template <class Visitor>
void visit_module_facts(const torch::nn::Module& module, const Path& path, Visitor& visitor) {
  // Options such as a stride or a dropout rate are not visible here, so a module never matches another one.
  visitor.identity(path, &module, [&module] { return std::weak_ptr<const void>(module.weak_from_this()); });
  visitor.constant(Path(path, "class"), static_cast<int64_t>(typeid(module).hash_code()));
  visitor.constant(Path(path, "training"), module.is_training());
  visitor.structure(path, Structure::kParameters, count_defined(own_parameters(module)));
  visitor.structure(path, Structure::kBuffers, count_defined(own_buffers(module)));
  const auto& children = own_children(module);
  visitor.structure(path, Structure::kChildren, static_cast<int64_t>(children.size()));
  for (const auto& child : children) visit_module_facts(*child.value(), Path(path, child.key()), visitor);
}

/// Visits the defined tensors that `own` finds in `module` and its submodules; as torch does, it skips undefined ones.
template <class Visitor>
void visit_module_tensors(const torch::nn::Module& module, const NamedTensors& (*own)(const torch::nn::Module&),
                          const Path& path, Visitor& visitor) {
  for (const auto& named : own(module)) {
    if (named.value().defined()) visitor.module_tensor(Path(path, named.key()), named.value());
  }
  for (const auto& child : own_children(module)) {
    visit_module_tensors(*child.value(), own, Path(path, child.key()), visitor);
  }
}

}  // namespace detail

template <class Module>
requires std::is_base_of_v<torch::nn::Module, Module>
struct Tree<Module> {
  static constexpr bool kByIdentity = true;

  template <class Visitor>
  static void visit(const Module& module, const Path& path, Visitor& visitor) {
    detail::visit_module_facts(module, path, visitor);
    detail::visit_module_tensors(module, detail::own_parameters, path, visitor);
    detail::visit_module_tensors(module, detail::own_buffers, path, visitor);
  }
};

/// torch::nn::Linear and the like, which TORCH_MODULE derives from ModuleHolder.
template <class Holder>
requires std::is_base_of_v<torch::detail::ModuleHolderIndicator, Holder>
struct Tree<Holder> {
  template <class Visitor>
  static void visit(const Holder& holder, const Path& path, Visitor& visitor) {
    visitor.structure(path, Structure::kPointer, !holder.is_empty());
    if (!holder.is_empty()) visit_leaves(*holder, path, visitor);
  }
};

}  // namespace diptych
