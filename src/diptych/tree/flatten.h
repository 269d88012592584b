// From a value of the user's own type to a list of tensors and back.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "diptych/tree/spec.h"
#include "diptych/tree/tree.h"

namespace diptych {

/// A value's tensors, in the fixed order, and the rest of it.
struct Flattened {
  std::vector<at::Tensor> tensors;
  TreeSpec spec;
};

/// Flattens `value`; paths start with `name`. Undefined tensors are tensors too.
template <class T>
Flattened flatten(const T& value, std::string_view name = "") {
  detail::TreeRecorder recorder;
  visit_leaves(value, Path(name), recorder);
  return {recorder.take_tensors(), recorder.take_spec()};
}

namespace detail {

[[noreturn]] void throw_too_few_tensors(const Path& path, size_t got);
[[noreturn]] void throw_too_many_tensors(size_t expected, size_t got);
[[noreturn]] void throw_module_tensor(const char* who, const Path& path);

/// Assigns to the leaves of a value. What it assigns is behind virtual functions, so that a user's program holds one
/// visit of each of its types for all that is done to tensors.
struct LeafReplacer : LeafVisitor {
  static constexpr bool kReplacesTensors = true;
  virtual void tensor(const Path& path, at::Tensor& leaf) = 0;
  virtual void module_tensor(const Path& path, const at::Tensor& tensor) = 0;

 protected:
  ~LeafReplacer() = default;
};

/// Puts tensors into the leaves, one after the other.
struct LeafFiller final : LeafReplacer {
  explicit LeafFiller(c10::ArrayRef<at::Tensor> tensors) : tensors(tensors) {}
  c10::ArrayRef<at::Tensor> tensors;
  size_t next = 0;
  void tensor(const Path& path, at::Tensor& leaf) override;
  void module_tensor(const Path& path, const at::Tensor& tensor) override;
};

/// Takes the tensors out of the leaves.
struct LeafEmptier final : LeafReplacer {
  void tensor(const Path& path, at::Tensor& leaf) override;
  void module_tensor(const Path& path, const at::Tensor& tensor) override;
};

template <class Function>
struct LeafMapper final : LeafReplacer {
  explicit LeafMapper(Function& function) : function(function) {}
  Function& function;
  void tensor(const Path& path, at::Tensor& leaf) override {
    if constexpr (std::is_invocable_v<Function&, const Path&, const at::Tensor&>) {
      leaf = function(path, std::as_const(leaf));
    } else {
      leaf = function(std::as_const(leaf));
    }
  }
  void module_tensor(const Path& path, const at::Tensor&) override { throw_module_tensor("map_tensors", path); }
};

}  // namespace detail

/// Returns `example` with its tensors replaced, in order, by `tensors`. Parts that the example shares with others
/// (std::shared_ptr, c10::List) are copied first.
/// Errors: UserError if there are not as many tensors as leaves, or if the example holds a module.
template <class T>
T unflatten(T example, c10::ArrayRef<at::Tensor> tensors, std::string_view name = "") {
  detail::LeafFiller filler(tensors);
  visit_leaves<T, detail::LeafReplacer>(example, Path(name), filler);
  if (filler.next != tensors.size()) detail::throw_too_many_tensors(filler.next, tensors.size());
  return example;
}

/// Returns `value` with each tensor t replaced by function(t), or by function(path, t), called in order.
/// Errors: UserError if the value holds a module.
template <class T, class Function>
T map_tensors(T value, Function&& function, std::string_view name = "") {
  detail::LeafMapper<std::remove_reference_t<Function>> mapper(function);
  visit_leaves<T, detail::LeafReplacer>(value, Path(name), mapper);
  return value;
}

namespace detail {

/// What a TreeMatcher does with tensors: nothing, or appending handles, or addresses.
struct PassTensor {
  void operator()(const at::Tensor&) const {}
};
struct AppendTensor {
  c10::SmallVectorImpl<at::Tensor>& tensors;
  void operator()(const at::Tensor& tensor) const { tensors.push_back(tensor); }
};
struct AppendAddress {
  c10::SmallVectorImpl<const at::Tensor*>& tensors;
  void operator()(const at::Tensor& tensor) const { tensors.push_back(&tensor); }
};

/// Whether `value` has the structure and the constants of `spec`. Does not allocate.
template <class T>
bool matches(const TreeSpec& spec, const T& value) {
  TreeMatcher matcher(spec, PassTensor());
  visit_leaves(value, Path(), matcher);
  return matcher.matched();
}

/// As matches(), and appends the value's tensors to `tensors` (which is left as it was if the value does not match).
/// The tensors are copied handles, or addresses that are valid while the value lives and is not changed.
template <class T>
bool flatten_if_matches(const TreeSpec& spec, const T& value, c10::SmallVectorImpl<at::Tensor>& tensors) {
  const size_t size = tensors.size();
  TreeMatcher matcher(spec, AppendTensor{tensors});
  visit_leaves(value, Path(), matcher);
  if (!matcher.matched()) tensors.resize(size);
  return matcher.matched();
}

template <class T>
bool flatten_if_matches(const TreeSpec& spec, const T& value, c10::SmallVectorImpl<const at::Tensor*>& tensors) {
  const size_t size = tensors.size();
  TreeMatcher matcher(spec, AppendAddress{tensors});
  visit_leaves(value, Path(), matcher);
  if (!matcher.matched()) tensors.resize(size);
  return matcher.matched();
}

/// The hash of a value's structure and constants: equal to flatten(value).spec.hash(), without allocating.
template <class T>
uint64_t structure_hash(const T& value) {
  TreeHasher hasher;
  visit_leaves(value, Path(), hasher);
  return hasher.hash();
}

}  // namespace detail
}  // namespace diptych
