#include "diptych/native/kernel/scalar_op.h"

#include "diptych/native/kernel/scalar_functions.h"

namespace diptych::detail {
namespace {

template <ResultRule Rule, class T>
struct ResultOf {
  using Type = T;
};
template <class T>
struct ResultOf<ResultRule::kBool, T> {
  using Type = bool;
};
template <class T>
struct ResultOf<ResultRule::kReal, T> {
  using Type = typename c10::scalar_value_type<T>::type;
};
template <class T>
struct ResultOf<ResultRule::kComplex, T> {
  using Type = c10::complex<T>;
};

// What a table's row calls: reads as many operands as F takes, and writes F of them.
template <int Arity, DtypeSet Operands, ResultRule Rule, auto F>
void evaluate_row(at::ScalarType dtype, at::ScalarType, const void* const* operands, void* to) {
  with_element_type<Operands>(dtype, [&]<class T>(std::type_identity<T>) {
    using Result = typename ResultOf<Rule, T>::Type;
    const auto x = [&](int i) { return *static_cast<const T*>(operands[i]); };
    if constexpr (Arity == 1) {
      *static_cast<Result*>(to) = static_cast<Result>(F(x(0)));
    } else if constexpr (Arity == 2) {
      *static_cast<Result*>(to) = static_cast<Result>(F(x(0), x(1)));
    } else {
      *static_cast<Result*>(to) = static_cast<Result>(F(x(0), x(1), x(2)));
    }
  });
}

template <DtypeSet Operands, auto F, ResultRule Rule = ResultRule::kSame>
constexpr ScalarOp unary(std::string_view name) {
  return {name, 1, Operands, false, Rule, &evaluate_row<1, Operands, Rule, F>};
}
template <DtypeSet Operands, auto F, ResultRule Rule = ResultRule::kSame>
constexpr ScalarOp binary(std::string_view name) {
  return {name, 2, Operands, false, Rule, &evaluate_row<2, Operands, Rule, F>};
}
template <auto F>
constexpr ScalarOp comparison(std::string_view name) {
  return binary<kBools | kRealNumbers, F, ResultRule::kBool>(name);
}

void evaluate_select(at::ScalarType dtype, at::ScalarType, const void* const* operands, void* to) {
  with_element_type<kComputed>(dtype, [&]<class T>(std::type_identity<T>) {
    *static_cast<T*>(to) = *static_cast<const T*>(*static_cast<const bool*>(operands[0]) ? operands[1] : operands[2]);
  });
}

void evaluate_cast(at::ScalarType dtype, at::ScalarType result, const void* const* operands, void* to) {
  cast_element(dtype, operands[0], result, to);
}

constexpr DtypeSet kInexact = kFloats | kComplexes;
constexpr DtypeSet kBitPatterns = kIntegers | kBools;

constexpr ScalarOp kScalarOps[] = {
    // Arithmetic.
    binary<kNumbers, [](auto a, auto b) { return reference::wrapping(a) + reference::wrapping(b); }>("add"),
    binary<kNumbers, [](auto a, auto b) { return reference::wrapping(a) - reference::wrapping(b); }>("sub"),
    binary<kNumbers, [](auto a, auto b) { return reference::wrapping(a) * reference::wrapping(b); }>("mul"),
    binary<kFloats, [](auto a, auto b) { return a * b; }>("rounded_mul"),
    binary<kInexact, [](auto a, auto b) { return a / b; }>("div"),
    binary<kRealNumbers, [](auto a, auto b) { return reference::trunc_div(a, b); }>("trunc_div"),
    binary<kRealNumbers, [](auto a, auto b) { return reference::floor_div(a, b); }>("floor_div"),
    binary<kRealNumbers, [](auto a, auto b) { return reference::rem(a, b); }>("rem"),
    binary<kRealNumbers, [](auto a, auto b) { return reference::truncated_rem(a, b); }>("fmod"),
    binary<kNumbers, [](auto a, auto b) { return reference::power(a, b); }>("pow"),
    {"fma", 3, kFloats, false, ResultRule::kSame,
     &evaluate_row<3, kFloats, ResultRule::kSame, [](auto a, auto b, auto c) { return std::fma(a, b, c); }>},
    unary<kNumbers, [](auto a) { return -reference::wrapping(a); }>("neg"),
    unary<kNumbers, [](auto a) { return reference::absolute(a); }, ResultRule::kReal>("abs"),
    unary<kNumbers, [](auto a) { return reference::sign(a); }>("sign"),
    binary<kBools | kRealNumbers, [](auto a, auto b) { return reference::minimum(a, b); }>("min"),
    binary<kBools | kRealNumbers, [](auto a, auto b) { return reference::maximum(a, b); }>("max"),
    // Powers, exponentials, logarithms.
    unary<kInexact, [](auto a) { return std::sqrt(a); }>("sqrt"),
    unary<kInexact, [](auto a) { return decltype(a)(1) / std::sqrt(a); }>("rsqrt"),
    unary<kInexact, [](auto a) { return std::exp(a); }>("exp"),
    unary<kFloats, [](auto a) { return std::exp2(a); }>("exp2"),
    unary<kInexact, [](auto a) { return std::expm1(a); }>("expm1"),
    unary<kInexact, [](auto a) { return std::log(a); }>("log"),
    unary<kInexact, [](auto a) { return reference::log2(a); }>("log2"),
    unary<kInexact, [](auto a) { return std::log10(a); }>("log10"),
    unary<kInexact, [](auto a) { return std::log1p(a); }>("log1p"),
    // Trigonometric and hyperbolic functions and their inverses.
    unary<kInexact, [](auto a) { return std::sin(a); }>("sin"),
    unary<kInexact, [](auto a) { return std::cos(a); }>("cos"),
    unary<kInexact, [](auto a) { return std::tan(a); }>("tan"),
    unary<kInexact, [](auto a) { return std::asin(a); }>("asin"),
    unary<kInexact, [](auto a) { return std::acos(a); }>("acos"),
    unary<kInexact, [](auto a) { return std::atan(a); }>("atan"),
    unary<kInexact, [](auto a) { return std::sinh(a); }>("sinh"),
    unary<kInexact, [](auto a) { return std::cosh(a); }>("cosh"),
    unary<kInexact, [](auto a) { return std::tanh(a); }>("tanh"),
    unary<kInexact, [](auto a) { return std::asinh(a); }>("asinh"),
    unary<kInexact, [](auto a) { return std::acosh(a); }>("acosh"),
    unary<kInexact, [](auto a) { return std::atanh(a); }>("atanh"),
    binary<kFloats, [](auto a, auto b) { return std::atan2(a, b); }>("atan2"),
    binary<kFloats, [](auto a, auto b) { return std::hypot(a, b); }>("hypot"),
    // Special functions.
    unary<kFloats, [](auto a) { return std::erf(a); }>("erf"),
    unary<kFloats, [](auto a) { return std::erfc(a); }>("erfc"),
    unary<kFloats, [](auto a) { return calc_erfinv(a); }>("erfinv"),
    unary<kFloats, [](auto a) { return std::lgamma(a); }>("lgamma"),
    unary<kFloats, [](auto a) { return calc_digamma(a); }>("digamma"),
    // Rounding. round takes the even neighbour of a half.
    unary<kFloats, [](auto a) { return std::floor(a); }>("floor"),
    unary<kFloats, [](auto a) { return std::ceil(a); }>("ceil"),
    unary<kFloats, [](auto a) { return std::trunc(a); }>("trunc"),
    unary<kFloats, [](auto a) { return std::nearbyint(a); }>("round"),
    // Comparisons and what kind of number it is.
    binary<kComputed, [](auto a, auto b) { return a == b; }, ResultRule::kBool>("eq"),
    binary<kComputed, [](auto a, auto b) { return a != b; }, ResultRule::kBool>("ne"),
    comparison<[](auto a, auto b) { return a < b; }>("lt"),
    comparison<[](auto a, auto b) { return a <= b; }>("le"),
    comparison<[](auto a, auto b) { return b < a; }>("gt"),  // g++ takes a bare > for the end of the list
    comparison<[](auto a, auto b) { return a >= b; }>("ge"),
    unary<kFloats, [](auto a) { return std::isnan(a); }, ResultRule::kBool>("is_nan"),
    unary<kFloats, [](auto a) { return std::isinf(a); }, ResultRule::kBool>("is_inf"),
    unary<kFloats, [](auto a) { return std::isfinite(a); }, ResultRule::kBool>("is_finite"),
    unary<kFloats, [](auto a) { return std::signbit(a); }, ResultRule::kBool>("sign_bit"),
    binary<kFloats, [](auto a, auto b) { return std::copysign(a, b); }>("copysign"),
    // Bits; of bools these are the logical operations.
    binary<kBitPatterns, [](auto a, auto b) { return a & b; }>("and"),
    binary<kBitPatterns, [](auto a, auto b) { return a | b; }>("or"),
    binary<kBitPatterns, [](auto a, auto b) { return a ^ b; }>("xor"),
    unary<kBitPatterns, [](auto a) { return a ^ static_cast<decltype(a)>(-1); }>("not"),
    binary<kIntegers, [](auto a, auto b) { return reference::shift_left(a, b); }>("shift_left"),
    binary<kIntegers, [](auto a, auto b) { return reference::shift_right(a, b); }>("shift_right"),
    // Complex numbers and their parts.
    unary<kComplexes, [](auto a) { return a.real(); }, ResultRule::kReal>("real"),
    unary<kComplexes, [](auto a) { return a.imag(); }, ResultRule::kReal>("imag"),
    unary<kComplexes, [](auto a) { return std::conj(a); }>("conj"),
    binary<kFloats, [](auto a, auto b) { return c10::complex<decltype(a)>(a, b); }, ResultRule::kComplex>("complex"),
    // Choice and conversion.
    {"select", 3, kComputed, /*has_condition=*/true, ResultRule::kSame, &evaluate_select},
    {"cast", 1, kStored, false, ResultRule::kAny, &evaluate_cast},
};

}  // namespace

std::span<const ScalarOp> scalar_ops() { return kScalarOps; }

const ScalarOp* find_scalar_op(std::string_view name) {
  for (const ScalarOp& op : kScalarOps) {
    if (op.name == name) return &op;
  }
  return nullptr;
}

std::optional<at::ScalarType> result_dtype(ResultRule rule, at::ScalarType operand) {
  if (rule == ResultRule::kAny) return std::nullopt;
  if (rule == ResultRule::kBool) return at::kBool;
  if (rule == ResultRule::kReal) return c10::toRealValueType(operand);
  return rule == ResultRule::kComplex ? c10::toComplexType(operand) : operand;
}

void cast_element(at::ScalarType from_dtype, const void* from, at::ScalarType to_dtype, void* to) {
  with_element_type<kStored>(from_dtype, [&]<class From>(std::type_identity<From>) {
    with_element_type<kStored>(to_dtype, [&]<class To>(std::type_identity<To>) {
      *static_cast<To*>(to) = reference::cast<To>(*static_cast<const From*>(from));
    });
  });
}

}  // namespace diptych::detail
