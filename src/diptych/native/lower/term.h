// Formulas over elements, written as C++ expressions: x * log(y) becomes the operations of a kernel that compute it.
#pragma once
#include <vector>

#include "diptych/native/kernel/dtypes.h"
#include "diptych/native/lower/kernel_builder.h"

namespace diptych::detail {

/// A value of a kernel with its builder. Operands of one operation have one dtype; a number takes that of the other
/// operand.
class Term {
 public:
  Term(KernelBuilder& builder, int32_t value) : builder_(&builder), value_(value) {}

  int32_t value() const { return value_; }
  KernelBuilder& builder() const { return *builder_; }
  at::ScalarType dtype() const { return builder_->dtype(value_); }
  bool is_float() const { return has_dtype(kFloats | kHalves, dtype()); }
  bool is_complex() const { return has_dtype(kComplexes, dtype()); }
  bool is_bool() const { return dtype() == at::kBool; }

  Term like(const at::Scalar& number) const { return {*builder_, builder_->constant(number, dtype())}; }
  Term to(at::ScalarType dtype) const { return {*builder_, builder_->cast(value_, dtype)}; }
  Term apply(std::string_view op) const { return {*builder_, builder_->scalar(op, {value_})}; }
  Term apply(std::string_view op, const Term& y) const { return {*builder_, builder_->scalar(op, {value_, y.value_})}; }
  Term apply(std::string_view op, double y) const { return apply(op, like(y)); }
  /// As a b8: `*this ? x : y`.
  Term choose(const Term& x, const Term& y) const {
    return {*builder_, builder_->scalar("select", {value_, x.value_, y.value_})};
  }
  Term choose(double x, const Term& y) const { return choose(y.like(x), y); }
  Term choose(const Term& x, double y) const { return choose(x, x.like(y)); }
  /// This times y plus z, rounded once.
  Term fma(const Term& y, const Term& z) const {
    return {*builder_, builder_->scalar("fma", {value_, y.value_, z.value_})};
  }
  Term reduce(std::string_view reduction, DimSet over, at::ScalarType dtype) const {
    return {*builder_, builder_->reduce(reduction, value_, over, dtype)};
  }

  Term operator-() const { return apply("neg"); }
  Term operator!() const { return apply("not"); }
  Term operator+(const Term& y) const { return apply("add", y); }
  Term operator-(const Term& y) const { return apply("sub", y); }
  Term operator*(const Term& y) const { return apply("mul", y); }
  Term operator/(const Term& y) const { return apply("div", y); }
  Term operator&(const Term& y) const { return apply("and", y); }
  Term operator|(const Term& y) const { return apply("or", y); }
  Term operator<(const Term& y) const { return apply("lt", y); }
  Term operator<=(const Term& y) const { return apply("le", y); }
  Term operator>(const Term& y) const { return apply("gt", y); }
  Term operator>=(const Term& y) const { return apply("ge", y); }
  Term equals(const Term& y) const { return apply("eq", y); }
  Term differs(const Term& y) const { return apply("ne", y); }

  Term operator+(double y) const { return *this + like(y); }
  Term operator-(double y) const { return *this - like(y); }
  Term operator*(double y) const { return *this * like(y); }
  Term operator/(double y) const { return *this / like(y); }
  Term operator<(double y) const { return *this < like(y); }
  Term operator<=(double y) const { return *this <= like(y); }
  Term operator>(double y) const { return *this > like(y); }
  Term operator>=(double y) const { return *this >= like(y); }
  Term equals(double y) const { return equals(like(y)); }
  Term differs(double y) const { return differs(like(y)); }

 private:
  KernelBuilder* builder_;
  int32_t value_;
};

using Terms = std::vector<Term>;

inline Term operator+(double x, const Term& y) { return y.like(x) + y; }
inline Term operator-(double x, const Term& y) { return y.like(x) - y; }
inline Term operator*(double x, const Term& y) { return y.like(x) * y; }
inline Term operator/(double x, const Term& y) { return y.like(x) / y; }
inline Term minimum(const Term& x, const Term& y) { return x.apply("min", y); }
inline Term maximum(const Term& x, const Term& y) { return x.apply("max", y); }
inline Term exp(const Term& x) { return x.apply("exp"); }
inline Term log(const Term& x) { return x.apply("log"); }
inline Term sqrt(const Term& x) { return x.apply("sqrt"); }
inline Term tanh(const Term& x) { return x.apply("tanh"); }
inline Term abs(const Term& x) { return x.apply("abs"); }
/// The number itself if it is real.
inline Term conj(const Term& x) { return x.is_complex() ? x.apply("conj") : x; }
/// 1 / (1 + exp(-x)), as ATen computes it.
inline Term sigmoid(const Term& x) { return 1.0 / (exp(-x) + 1.0); }

}  // namespace diptych::detail
