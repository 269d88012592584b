// Visiting the leaves of a user's value in one fixed order: depth first in declaration order for tuples, pairs, arrays,
// sequences, optionals and structs with a field list; by sorted key for maps. Modules: see tree/module.h.
// This header holds templates only and is on the hot path of every call of a compiled function: nothing here allocates,
// except for sorting more than 16 keys of an unordered map.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <array>
#include <complex>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "diptych/tree/fields.h"
#include "diptych/tree/path.h"

namespace c10 {
template <class T>
class List;
}

namespace diptych {

/// What a visitor's structure() reports: a property of the value, other than its tensors and constants, that two values
/// must share to have the same structure. The number that goes with it is in brackets.
enum class Structure : uint8_t {
  kTuple,       ///< a tuple, pair or array [elements]
  kStruct,      ///< a struct with a field list [fields]
  kSequence,    ///< a vector, list or deque [elements]
  kMap,         ///< a map [keys]; the keys follow, then the values
  kOptional,    ///< an optional [1 if it holds a value]
  kPointer,     ///< a shared or unique pointer [1 if it is not null]
  kVariant,     ///< a variant [index of its alternative]
  kParameters,  ///< a module's own parameters [defined ones]
  kBuffers,     ///< a module's own buffers [defined ones]
  kChildren,    ///< a module's direct submodules [how many]
};

/// The calls that a visitor gets, with bodies that do nothing: a visitor derives from this and redeclares those that it
/// needs. One that assigns to the tensors that it is given declares `static constexpr bool kReplacesTensors = true`;
/// then a value that is shared (std::shared_ptr, c10::List) is copied before it is entered, so that no other holder
/// sees the change.
struct LeafVisitor {
  /// A tensor, defined or not. For a visit to a const value the argument is const.
  void tensor(const Path& path, const at::Tensor& tensor) {}
  /// A value that is fixed when a graph is made: see ConstantLeaf.
  template <class X>
  void constant(const Path& path, const X& value) {}
  void structure(const Path& path, Structure kind, int64_t number) {}
  /// One of a map's keys: an int64_t or a std::string_view. All keys come before the first value.
  template <class Key>
  void key(const Path& map_path, Key key) {}
  /// A parameter or buffer of a module, which can be read but not replaced: the module holds further handles to it.
  void module_tensor(const Path& path, const at::Tensor& tensor) {}
  /// Says that the next tensor, or one that is held here and not visited, is of a class of the host language that
  /// redefines what operators do: `what`. Such a tensor is never captured.
  void subclass(const Path& path, std::string_view what) {}
  /// An object known by its address, such as a module. `make_owner()` returns a std::weak_ptr<const void> to it, by
  /// which a later check can tell that the address still means the same object; an empty one if nobody shares it.
  template <class MakeOwner>
  void identity(const Path& path, const void* object, MakeOwner&& make_owner) {}
};

/// Leaves that are part of the program and not tensors: numbers, enums (such as dtypes, layouts and memory formats),
/// strings, at::Scalar, c10::Device, and the types of nothing.
template <class T>
concept ConstantLeaf =
    (std::is_arithmetic_v<T> && !std::is_same_v<T, long double>) || std::is_enum_v<T> ||
    std::is_same_v<T, std::string> || std::is_same_v<T, std::string_view> || std::is_same_v<T, const char*> ||
    std::is_same_v<T, at::Scalar> || std::is_same_v<T, c10::Device> || std::is_same_v<T, c10::complex<float>> ||
    std::is_same_v<T, c10::complex<double>> || std::is_same_v<T, std::complex<float>> ||
    std::is_same_v<T, std::complex<double>> || std::is_same_v<T, std::nullopt_t> || std::is_same_v<T, std::nullptr_t> ||
    std::is_same_v<T, std::monostate>;

template <class T>
struct Tree;

/// Calls `visitor` for the leaves and the structure of `value`, in the fixed order.
/// Errors: a type that Diptych does not know fails to compile, with a message that says how to make it known.
template <class T, class Visitor>
void visit_leaves(T& value, const Path& path, Visitor& visitor) {
  Tree<std::remove_cv_t<T>>::visit(value, path, visitor);
}

namespace detail {

template <class Visitor>
constexpr bool replaces_tensors() {
  if constexpr (requires { Visitor::kReplacesTensors; }) {
    return Visitor::kReplacesTensors;
  } else {
    return false;
  }
}

/// Whether a value behind a pointer is known by its address and must not be copied, as modules are.
template <class T>
constexpr bool is_by_identity() {
  if constexpr (requires { Tree<T>::kByIdentity; }) {
    return Tree<T>::kByIdentity;
  } else {
    return false;
  }
}

template <class T>
inline constexpr bool kIsKnownTree = ConstantLeaf<T> || std::is_same_v<T, at::Tensor> || HasFields<T>;

template <class T, class Value, class Visitor>
void visit_fields(Value& value, const Path& path, Visitor& visitor) {
  auto fields = field_refs(value);
  static_assert(std::is_same_v<typename decltype(fields)::OwnerType, T>,
                "This class inherits its field list from a base class, so the fields that it adds would be lost. Give "
                "it its own list: DIPTYCH_FIELDS(inherited and own fields) inside it.");
  constexpr size_t kCount = std::tuple_size_v<decltype(fields.refs)>;
  visitor.structure(path, Structure::kStruct, kCount);
  [&]<size_t... i>(std::index_sequence<i...>) {
    (visit_leaves(std::get<i>(fields.refs), Path(path, kFieldNames<T, kCount>[i]), visitor), ...);
  }
  (std::make_index_sequence<kCount>());
}

template <class Tuple, class Visitor>
void visit_tuple(Tuple& tuple, const Path& path, Visitor& visitor) {
  constexpr size_t kCount = std::tuple_size_v<std::remove_cv_t<Tuple>>;
  visitor.structure(path, Structure::kTuple, kCount);
  [&]<size_t... i>(std::index_sequence<i...>) {
    (visit_leaves(std::get<i>(tuple), Path(path, static_cast<int64_t>(i)), visitor), ...);
  }
  (std::make_index_sequence<kCount>());
}

template <class Sequence, class Visitor>
void visit_sequence(Sequence& sequence, const Path& path, Visitor& visitor) {
  visitor.structure(path, Structure::kSequence, static_cast<int64_t>(sequence.size()));
  int64_t index = 0;
  for (auto& element : sequence) visit_leaves(element, Path(path, index++), visitor);
}

/// A map's key as visitors see it: text or a number.
template <class Key>
auto key_view(const Key& key) {
  static_assert(std::is_same_v<Key, std::string> || std::is_integral_v<Key> || std::is_enum_v<Key>,
                "Diptych supports maps whose keys are std::string, integers or enums.");
  if constexpr (std::is_same_v<Key, std::string>) {
    return std::string_view(key);
  } else {
    return static_cast<int64_t>(key);
  }
}

template <class Entries, class GetEntry, class Visitor>
void visit_entries(Entries& entries, GetEntry&& get, const Path& path, Visitor& visitor) {
  visitor.structure(path, Structure::kMap, static_cast<int64_t>(entries.size()));
  for (auto& entry : entries) visitor.key(path, key_view(get(entry).first));
  for (auto& entry : entries) visit_leaves(get(entry).second, Path(path, key_view(get(entry).first)), visitor);
}

/// Visits maps that are not in key order themselves. The order is that of operator<, whatever the map compares with.
template <class Map, class Visitor>
void visit_sorted(Map& map, const Path& path, Visitor& visitor) {
  using Entry = std::remove_reference_t<decltype(*map.begin())>;
  c10::SmallVector<Entry*, 16> entries;
  for (auto& entry : map) entries.push_back(&entry);
  std::sort(entries.begin(), entries.end(), [](Entry* a, Entry* b) { return a->first < b->first; });
  visit_entries(
      entries, [](Entry* entry) -> Entry& { return *entry; }, path, visitor);
}

template <class Pointer, class Visitor>
void visit_pointee(Pointer& pointer, const Path& path, Visitor& visitor) {
  using T = std::remove_const_t<typename std::remove_cv_t<Pointer>::element_type>;
  static_assert(is_by_identity<T>() || !std::is_polymorphic_v<T> || std::is_final_v<T>,
                "A pointer to a class with virtual functions may hold a derived class, whose fields would be lost. "
                "Point to a final class. For a torch::nn module, include diptych/tree/module.h.");
  visitor.structure(path, Structure::kPointer, pointer != nullptr);
  if (pointer == nullptr) return;
  if constexpr (is_by_identity<T>()) {
    visit_leaves(*pointer, path, visitor);
  } else if constexpr (std::is_const_v<Pointer>) {
    visit_leaves(std::as_const(*pointer), path, visitor);
  } else if constexpr (replaces_tensors<Visitor>() && std::is_copy_constructible_v<Pointer>) {
    auto copy = std::make_shared<T>(*pointer);
    visit_leaves(*copy, path, visitor);
    pointer = std::move(copy);
  } else {
    visit_leaves(*pointer, path, visitor);
  }
}

}  // namespace detail

/// How the leaves of a T are visited. Specialize it for a container of your own; a struct needs only a field list.
template <class T>
struct Tree {
  static_assert(detail::kIsKnownTree<T>,
                "Diptych can't look into this type. If it is your struct, list its fields inside it: "
                "DIPTYCH_FIELDS(a, b, c); if you can't edit it, list them beside it, in its namespace: "
                "DIPTYCH_FIELDS_OF(Type, a, b, c). For a torch::nn module, include diptych/tree/module.h.");

  template <class Value, class Visitor>
  static void visit(Value& value, const Path& path, Visitor& visitor) {
    if constexpr (std::is_same_v<T, at::Tensor>) {
      visitor.tensor(path, value);
    } else if constexpr (ConstantLeaf<T>) {
      visitor.constant(path, value);
    } else if constexpr (detail::HasFields<T>) {
      detail::visit_fields<T>(value, path, visitor);
    }
  }
};

template <class... Elements>
struct Tree<std::tuple<Elements...>> {
  template <class Value, class Visitor>
  static void visit(Value& value, const Path& path, Visitor& visitor) {
    detail::visit_tuple(value, path, visitor);
  }
};

template <class First, class Second>
struct Tree<std::pair<First, Second>> {
  template <class Value, class Visitor>
  static void visit(Value& value, const Path& path, Visitor& visitor) {
    detail::visit_tuple(value, path, visitor);
  }
};

template <class T, size_t n>
struct Tree<std::array<T, n>> {
  template <class Value, class Visitor>
  static void visit(Value& value, const Path& path, Visitor& visitor) {
    detail::visit_tuple(value, path, visitor);
  }
};

namespace detail {
/// Visits every container that is a sequence of stored elements.
struct SequenceTree {
  template <class Value, class Visitor>
  static void visit(Value& value, const Path& path, Visitor& visitor) {
    visit_sequence(value, path, visitor);
  }
};
}  // namespace detail

template <class T, class Allocator>
struct Tree<std::vector<T, Allocator>> : detail::SequenceTree {};
template <class T, class Allocator>
struct Tree<std::deque<T, Allocator>> : detail::SequenceTree {};
template <class T, class Allocator>
struct Tree<std::list<T, Allocator>> : detail::SequenceTree {};
template <class T, unsigned n>
struct Tree<c10::SmallVector<T, n>> : detail::SequenceTree {};

/// std::vector<bool> stores bits, to which there is no reference.
template <class Allocator>
struct Tree<std::vector<bool, Allocator>> {
  template <class Value, class Visitor>
  static void visit(Value& value, const Path& path, Visitor& visitor) {
    visitor.structure(path, Structure::kSequence, static_cast<int64_t>(value.size()));
    int64_t index = 0;
    for (const bool element : value) visitor.constant(Path(path, index++), element);
  }
};

/// c10::List shares its storage between copies and hands out elements through proxies, so it is written to only for a
/// visitor that replaces tensors, and then into a copy.
template <class T>
struct Tree<c10::List<T>> {
  static_assert(std::is_same_v<T, at::Tensor> || ConstantLeaf<T>,
                "Diptych supports a c10::List of tensors or of constants; for other elements use std::vector.");

  template <class Value, class Visitor>
  static void visit(Value& value, const Path& path, Visitor& visitor) {
    visitor.structure(path, Structure::kSequence, static_cast<int64_t>(value.size()));
    if constexpr (!std::is_const_v<Value> && detail::replaces_tensors<Visitor>()) {
      value = value.copy();
      for (size_t i = 0; i < value.size(); ++i) {
        T element = value.get(i);
        visit_leaves(element, Path(path, static_cast<int64_t>(i)), visitor);
        value.set(i, std::move(element));
      }
    } else {
      for (size_t i = 0; i < value.size(); ++i) {
        const T& element = std::as_const(value)[i];
        visit_leaves(element, Path(path, static_cast<int64_t>(i)), visitor);
      }
    }
  }
};

template <class Key, class T, class Compare, class Allocator>
struct Tree<std::map<Key, T, Compare, Allocator>> {
  template <class Value, class Visitor>
  static void visit(Value& value, const Path& path, Visitor& visitor) {
    if constexpr (std::is_same_v<Compare, std::less<Key>> || std::is_same_v<Compare, std::less<>>) {
      detail::visit_entries(
          value, [](auto& entry) -> auto& { return entry; }, path, visitor);
    } else {
      detail::visit_sorted(value, path, visitor);
    }
  }
};

template <class Key, class T, class Hash, class Equal, class Allocator>
struct Tree<std::unordered_map<Key, T, Hash, Equal, Allocator>> {
  template <class Value, class Visitor>
  static void visit(Value& value, const Path& path, Visitor& visitor) {
    detail::visit_sorted(value, path, visitor);
  }
};

template <class T>
struct Tree<std::optional<T>> {
  template <class Value, class Visitor>
  static void visit(Value& value, const Path& path, Visitor& visitor) {
    visitor.structure(path, Structure::kOptional, value.has_value());
    if (value.has_value()) visit_leaves(*value, path, visitor);
  }
};

template <class... Alternatives>
struct Tree<std::variant<Alternatives...>> {
  template <class Value, class Visitor>
  static void visit(Value& value, const Path& path, Visitor& visitor) {
    visitor.structure(path, Structure::kVariant, static_cast<int64_t>(value.index()));
    if (value.valueless_by_exception()) return;
    std::visit([&](auto& alternative) { visit_leaves(alternative, path, visitor); }, value);
  }
};

template <class T>
struct Tree<std::shared_ptr<T>> {
  template <class Value, class Visitor>
  static void visit(Value& value, const Path& path, Visitor& visitor) {
    detail::visit_pointee(value, path, visitor);
  }
};

template <class T, class Deleter>
struct Tree<std::unique_ptr<T, Deleter>> {
  template <class Value, class Visitor>
  static void visit(Value& value, const Path& path, Visitor& visitor) {
    detail::visit_pointee(value, path, visitor);
  }
};

/// Visits each argument of a call as a root of its own, called names[i], or "arg0", "arg1", ... beyond the names.
template <class Visitor, class... Arguments>
void visit_arguments(c10::ArrayRef<std::string> names, Visitor& visitor, Arguments&... arguments) {
  size_t index = 0;
  const auto visit_one = [&](auto& argument) {
    const size_t i = index++;
    visit_leaves(argument, i < names.size() ? Path(names[i]) : Path::numbered("arg", static_cast<int64_t>(i)), visitor);
  };
  (visit_one(arguments), ...);
}

}  // namespace diptych
