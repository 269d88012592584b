// How a struct names its fields, once, so that Diptych can walk through it: DIPTYCH_FIELDS inside it, or
// DIPTYCH_FIELDS_OF beside it. Example:
//   struct Params { at::Tensor w, b; std::vector<Block> blocks; DIPTYCH_FIELDS(w, b, blocks) };
#pragma once
#include <array>
#include <concepts>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace diptych::detail {

/// References to the fields of `owner`, in order. The owner's type shows whether a class has its own list or has only
/// inherited one, which would lose the fields that it adds.
template <class Owner, class... Fields>
struct FieldRefs {
  using OwnerType = std::remove_const_t<Owner>;
  FieldRefs(Owner* /*owner*/, std::tuple<Fields&...> refs) : refs(refs) {}
  std::tuple<Fields&...> refs;
};

/// Reads the list that DIPTYCH_FIELDS made; the class declares it a friend, so that the list may be in a private part.
struct FieldAccess {
  template <class T>
  static auto refs(T& value) requires requires {
    value.diptych_fields();
  }
  { return value.diptych_fields(); }
  template <class T>
  static constexpr std::string_view names() requires requires {
    T::diptych_field_names();
  }
  { return T::diptych_field_names(); }
};

template <class T>
concept HasOwnFieldList = requires(T& value) {
  FieldAccess::refs(value);
};
template <class T>
concept HasOutsideFieldList = requires(T& value) {
  diptych_fields_of(value);
};
template <class T>
concept HasFields = HasOwnFieldList<T> || HasOutsideFieldList<T>;

template <class T>
auto field_refs(T& value) {
  if constexpr (HasOwnFieldList<T>) {
    return FieldAccess::refs(value);
  } else {
    return diptych_fields_of(value);
  }
}

/// Splits "w, b, blocks" at its commas; a field is an identifier, so there is nothing else to look for.
template <size_t N>
constexpr std::array<std::string_view, N> split_names(std::string_view list) {
  std::array<std::string_view, N> names{};
  for (size_t i = 0; i < N; ++i) {
    const size_t comma = list.find(',');
    std::string_view name = list.substr(0, comma);
    while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
    while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
    names[i] = name;
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  }
  return names;
}

template <class T>
constexpr std::string_view field_name_list() {
  if constexpr (HasOwnFieldList<T>) {
    return FieldAccess::names<T>();
  } else {
    return diptych_field_names_of(static_cast<const T*>(nullptr));
  }
}

/// The names of T's `N` fields, made at compile time.
template <class T, size_t N>
inline constexpr std::array<std::string_view, N> kFieldNames = split_names<N>(field_name_list<T>());

}  // namespace diptych::detail

/// Lists the fields of the struct that it is in, in the order in which they are visited. It takes any number of fields,
/// including none, and private ones too. A field that is left out is seen neither as a tensor nor by guards.
#define DIPTYCH_FIELDS(...)                                                                         \
  friend struct ::diptych::detail::FieldAccess;                                                     \
  auto diptych_fields() { return ::diptych::detail::FieldRefs(this, std::tie(__VA_ARGS__)); }       \
  auto diptych_fields() const { return ::diptych::detail::FieldRefs(this, std::tie(__VA_ARGS__)); } \
  static constexpr std::string_view diptych_field_names() { return #__VA_ARGS__; }

/// Lists the public fields of a struct that can't be edited. It must be in the namespace of the struct (that is how it
/// is found). It takes at most 340 fields. A type with a comma in its name needs an alias.
#define DIPTYCH_FIELDS_OF(Type, ...)                                                                           \
  [[maybe_unused]] inline auto diptych_fields_of(Type& value) {                                                \
    return ::diptych::detail::FieldRefs(&value, std::tie(__VA_OPT__(DIPTYCH_DETAIL_EACH_FIELD(__VA_ARGS__)))); \
  }                                                                                                            \
  [[maybe_unused]] inline auto diptych_fields_of(const Type& value) {                                          \
    return ::diptych::detail::FieldRefs(&value, std::tie(__VA_OPT__(DIPTYCH_DETAIL_EACH_FIELD(__VA_ARGS__)))); \
  }                                                                                                            \
  [[maybe_unused]] constexpr std::string_view diptych_field_names_of(const Type*) { return #__VA_ARGS__; }

// Turns `a, b` into `value.a, value.b`. A macro can't call itself, so each step leaves the next one unexpanded and the
// nested DIPTYCH_DETAIL_EXPANDn scan the text again, 4^4 + ... times.
#define DIPTYCH_DETAIL_PARENS ()
#define DIPTYCH_DETAIL_EXPAND(...) \
  DIPTYCH_DETAIL_EXPAND3(DIPTYCH_DETAIL_EXPAND3(DIPTYCH_DETAIL_EXPAND3(DIPTYCH_DETAIL_EXPAND3(__VA_ARGS__))))
#define DIPTYCH_DETAIL_EXPAND3(...) \
  DIPTYCH_DETAIL_EXPAND2(DIPTYCH_DETAIL_EXPAND2(DIPTYCH_DETAIL_EXPAND2(DIPTYCH_DETAIL_EXPAND2(__VA_ARGS__))))
#define DIPTYCH_DETAIL_EXPAND2(...) \
  DIPTYCH_DETAIL_EXPAND1(DIPTYCH_DETAIL_EXPAND1(DIPTYCH_DETAIL_EXPAND1(DIPTYCH_DETAIL_EXPAND1(__VA_ARGS__))))
#define DIPTYCH_DETAIL_EXPAND1(...) __VA_ARGS__
#define DIPTYCH_DETAIL_EACH_FIELD(...) DIPTYCH_DETAIL_EXPAND(DIPTYCH_DETAIL_FIELD_STEP(__VA_ARGS__))
#define DIPTYCH_DETAIL_FIELD_STEP(field, ...) \
  value.field __VA_OPT__(, DIPTYCH_DETAIL_FIELD_AGAIN DIPTYCH_DETAIL_PARENS(__VA_ARGS__))
#define DIPTYCH_DETAIL_FIELD_AGAIN() DIPTYCH_DETAIL_FIELD_STEP
