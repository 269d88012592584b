// The dtypes of kernels: sets of them, and the way from a dtype to the C++ type that holds its elements.
#pragma once
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include "diptych/base/check.h"

namespace diptych::detail {

/// A set of dtypes, one bit each.
using DtypeSet = uint64_t;

constexpr DtypeSet dtype_bit(at::ScalarType dtype) { return DtypeSet{1} << static_cast<int>(dtype); }
constexpr bool has_dtype(DtypeSet set, at::ScalarType dtype) { return (set & dtype_bit(dtype)) != 0; }

inline constexpr DtypeSet kBools = dtype_bit(at::kBool);
inline constexpr DtypeSet kIntegers =
    dtype_bit(at::kByte) | dtype_bit(at::kChar) | dtype_bit(at::kShort) | dtype_bit(at::kInt) | dtype_bit(at::kLong);
inline constexpr DtypeSet kHalves = dtype_bit(at::kHalf) | dtype_bit(at::kBFloat16);
inline constexpr DtypeSet kFloats = dtype_bit(at::kFloat) | dtype_bit(at::kDouble);
inline constexpr DtypeSet kComplexes = dtype_bit(at::kComplexFloat) | dtype_bit(at::kComplexDouble);
inline constexpr DtypeSet kRealNumbers = kIntegers | kFloats;
inline constexpr DtypeSet kNumbers = kRealNumbers | kComplexes;
/// What a kernel computes with. See Note [Halves are storage] in scalar_op.h.
inline constexpr DtypeSet kComputed = kBools | kNumbers;
/// What a kernel reads and writes.
inline constexpr DtypeSet kStored = kComputed | kHalves;

/// The widest dtype of each kind, in which the reference accumulates: no kernel accumulates in a wider one.
inline constexpr DtypeSet kWidest = dtype_bit(at::kLong) | dtype_bit(at::kDouble) | dtype_bit(at::kComplexDouble);
constexpr at::ScalarType widest_dtype(at::ScalarType dtype) {
  if (has_dtype(kComplexes, dtype)) return at::kComplexDouble;
  return has_dtype(kFloats | kHalves, dtype) ? at::kDouble : at::kLong;
}

/// "f32, f64": the names of a set's dtypes, for messages.
std::string dtype_names(DtypeSet set);

template <at::ScalarType Dtype>
using ElementOf = c10::impl::ScalarTypeToCPPTypeT<Dtype>;

/// Calls `body(std::type_identity<T>{})` with the C++ type of `dtype`, which must be in `Set`; `body` is compiled for
/// the types of the set alone.
template <DtypeSet Set, class Body>
void with_element_type(at::ScalarType dtype, const Body& body) {
  const auto is = [&]<at::ScalarType Dtype>(std::integral_constant<at::ScalarType, Dtype>) {
    if constexpr (has_dtype(Set, Dtype)) {
      if (dtype != Dtype) return false;
      body(std::type_identity<ElementOf<Dtype>>{});
      return true;
    }
    return false;
  };
  const auto is_one_of = [&]<at::ScalarType... Dtypes>(std::integer_sequence<at::ScalarType, Dtypes...>) {
    return (is(std::integral_constant<at::ScalarType, Dtypes>{}) || ...);
  };
  const bool found = is_one_of(
      std::integer_sequence<at::ScalarType, at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf,
                            at::kBFloat16, at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble>{});
  DIPTYCH_ASSERT(found, "no computation for elements of dtype {}; the verifier lets none through",
                 c10::toString(dtype));
}

}  // namespace diptych::detail
