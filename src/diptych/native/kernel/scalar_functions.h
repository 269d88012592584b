// The C++ functions behind the rows of scalar_op.cpp, for the C++ types of the dtypes.
#pragma once
#include <ATen/native/Math.h>
#include <c10/util/complex.h>
#include <c10/util/generic_math.h>

#include <cmath>
#include <limits>

namespace diptych::detail::reference {

template <class T>
inline constexpr bool kIsInteger = std::is_integral_v<T> && !std::is_same_v<T, bool>;
template <class T>
inline constexpr bool kIsComplex = c10::is_complex<T>::value;

/// Integers wrap: arithmetic on the unsigned number of 64 bits, cut to the result's width, has the same low bits as
/// arithmetic of any width. Other numbers are as they are.
template <class T>
auto wrapping(T x) {
  if constexpr (kIsInteger<T>) {
    return static_cast<uint64_t>(x);
  } else {
    return x;
  }
}

template <class T>
T minimum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
  }
  return b < a ? b : a;
}

template <class T>
T maximum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
  }
  return a < b ? b : a;
}

template <class T>
auto absolute(T x) {
  if constexpr (kIsInteger<T>) {
    return x < 0 ? uint64_t{0} - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
  } else {
    return std::abs(x);
  }
}

template <class T>
T sign(T x) {
  if constexpr (kIsComplex<T>) {
    const auto size = std::abs(x);
    return size == 0 ? T(0) : x / size;
  } else {
    return static_cast<T>((T(0) < x) - (x < T(0)));
  }
}

/// Whether the quotient of two integers is one that C++ defines. See Note [Scalar operations are total].
template <class T>
bool divides(T a, T b) {
  return b != 0 && !(std::is_signed_v<T> && a == std::numeric_limits<T>::min() && b == static_cast<T>(-1));
}

template <class T>
T trunc_div(T a, T b) {
  if constexpr (kIsInteger<T>) {
    return b == 0 ? T(0) : divides(a, b) ? static_cast<T>(a / b) : a;
  } else {
    return std::trunc(a / b);
  }
}

template <class T>
T floor_div(T a, T b) {
  if constexpr (kIsInteger<T>) {
    if (!divides(a, b)) return b == 0 ? T(0) : a;
    const bool rounds_up = (a % b != 0) && ((a < 0) != (b < 0));
    return static_cast<T>(a / b - rounds_up);
  } else {
    return c10::div_floor_floating(a, b);
  }
}

template <class T>
T truncated_rem(T a, T b) {
  if constexpr (kIsInteger<T>) {
    return divides(a, b) ? static_cast<T>(a % b) : T(0);
  } else {
    return std::fmod(a, b);
  }
}

/// The remainder with the divisor's sign.
template <class T>
T rem(T a, T b) {
  const T left = truncated_rem(a, b);
  return left != 0 && (b < 0) != (left < 0) ? static_cast<T>(left + b) : left;
}

/// The power of integers: a negative exponent leaves 1 and -1 alone, and makes 0 of the others.
template <class T>
T integer_pow(T base, T exponent) {
  if (exponent < 0) {
    if (base == static_cast<T>(-1)) return exponent % 2 == 0 ? T(1) : static_cast<T>(-1);
    return base == 1 ? T(1) : T(0);
  }
  uint64_t result = 1, power = wrapping(base);
  for (auto left = wrapping(exponent); left != 0; left >>= 1) {
    if (left & 1) result *= power;
    power *= power;
  }
  return static_cast<T>(result);
}

template <class T>
T power(T base, T exponent) {
  if constexpr (kIsInteger<T>) {
    return integer_pow(base, exponent);
  } else {
    return std::pow(base, exponent);
  }
}

/// The logarithm to the base 2, where ATen divides the parts of a complex one and leaves infinite ones infinite.
template <class T>
T log2(T x) {
  if constexpr (kIsComplex<T>) {
    const T natural = std::log(x);
    const auto base = std::log(typename T::value_type(2));
    return T(natural.real() / base, natural.imag() / base);
  } else {
    return std::log2(x);
  }
}

template <class T>
T shift_left(T x, T by) {
  const bool is_inside = by >= 0 && static_cast<uint64_t>(by) < sizeof(T) * 8;
  return is_inside ? static_cast<T>(static_cast<uint64_t>(x) << by) : T(0);
}

template <class T>
T shift_right(T x, T by) {
  const bool is_inside = by >= 0 && static_cast<uint64_t>(by) < sizeof(T) * 8;
  return is_inside ? static_cast<T>(x >> by) : x < 0 ? static_cast<T>(-1) : T(0);
}

/// What x86 makes of a float: the smallest integer where it does not fit, as i64 for u8, as i32 for i8 and i16, whose
/// low bits are then taken.
template <class T>
T integer_of(double x) {
  using Wide = std::conditional_t<std::is_same_v<T, int64_t> || std::is_same_v<T, uint8_t>, int64_t, int32_t>;
  const double end = std::ldexp(1.0, sizeof(Wide) * 8 - 1);
  const bool fits = x > -end - 1 && x < end;
  return static_cast<T>(fits ? static_cast<Wide>(x) : std::numeric_limits<Wide>::min());
}

template <class To, class From>
To cast(From x) {
  if constexpr (kIsComplex<To>) {
    using Part = typename To::value_type;
    if constexpr (kIsComplex<From>) {
      return To(static_cast<Part>(x.real()), static_cast<Part>(x.imag()));
    } else {
      return To(cast<Part>(x), Part(0));
    }
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (kIsComplex<From>) {
    return cast<To>(x.real());
  } else if constexpr (kIsInteger<To> && !std::is_integral_v<From>) {
    return integer_of<To>(static_cast<double>(x));
  } else if constexpr (sizeof(To) == 2 && !kIsInteger<To>) {
    return static_cast<To>(static_cast<float>(x));
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace diptych::detail::reference
