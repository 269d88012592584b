// A constant leaf as two words and a text, so that constants of every type are stored, compared and hashed alike.
#pragma once
#include <ATen/core/Tensor.h>

#include <bit>
#include <complex>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "diptych/tree/tree.h"

namespace diptych {

/// What kind of constant a Constant holds; an integer never equals a float, since dtype promotion distinguishes them.
enum class ConstantKind : uint8_t {
  kNothing,
  kBool,
  kInteger,
  kUnsigned,
  kFloat,
  kComplex,
  kString,
  kEnum,
  kDtype,
  kDevice
};

/// A constant leaf. `text` refers to the string that it was made from.
struct Constant {
  ConstantKind kind = ConstantKind::kNothing;
  uint64_t bits = 0;       ///< the value; floats by their bits, so that a NaN equals itself and -0.0 is not 0.0
  uint64_t more_bits = 0;  ///< the imaginary part, or a device's index
  std::string_view text;   ///< strings only

  static Constant of(const at::Scalar& value);
  template <ConstantLeaf X>
  static Constant of(const X& value);
  /// The constant as code would write it: 3, 0.5, true, "relu", Float, cuda:0.
  std::string str() const;
};

template <ConstantLeaf X>
Constant Constant::of(const X& value) {
  if constexpr (std::is_same_v<X, std::nullptr_t> || std::is_same_v<X, std::nullopt_t> ||
                std::is_same_v<X, std::monostate>) {
    return {};
  } else if constexpr (std::is_same_v<X, bool>) {
    return {ConstantKind::kBool, value, 0, {}};
  } else if constexpr (std::is_same_v<X, at::ScalarType>) {
    return {ConstantKind::kDtype, static_cast<uint64_t>(value), 0, {}};
  } else if constexpr (std::is_enum_v<X>) {
    return {ConstantKind::kEnum, static_cast<uint64_t>(value), 0, {}};
  } else if constexpr (std::is_integral_v<X>) {
    // Each value has one encoding, whatever its width: only what int64_t can't hold is kept as unsigned.
    const bool is_large = std::is_unsigned_v<X> && static_cast<uint64_t>(value) > uint64_t{INT64_MAX};
    return {is_large ? ConstantKind::kUnsigned : ConstantKind::kInteger, static_cast<uint64_t>(value), 0, {}};
  } else if constexpr (std::is_floating_point_v<X>) {
    return {ConstantKind::kFloat, std::bit_cast<uint64_t>(static_cast<double>(value)), 0, {}};
  } else if constexpr (requires { value.imag(); }) {
    return {ConstantKind::kComplex,
            std::bit_cast<uint64_t>(static_cast<double>(value.real())),
            std::bit_cast<uint64_t>(static_cast<double>(value.imag())),
            {}};
  } else if constexpr (std::is_same_v<X, const char*>) {
    return value == nullptr ? Constant{} : Constant{ConstantKind::kString, 0, 0, value};
  } else if constexpr (std::is_convertible_v<X, std::string_view>) {
    return {ConstantKind::kString, 0, 0, value};
  } else {
    static_assert(std::is_same_v<X, c10::Device>, "a kind of constant has no encoding");
    return {ConstantKind::kDevice, static_cast<uint64_t>(value.type()), static_cast<uint64_t>(value.index()), {}};
  }
}

}  // namespace diptych
