// An integer size that may depend on dynamic sizes: a polynomial in named symbols, plus the value it had when traced.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace diptych {

/// A size, stride or offset. Static sizes are plain integers; dynamic ones are integer polynomials divided by one
/// positive integer, such as `s0*s1/2`, in symbols and in quotients that are rounded down, such as `floor((s0+1)/2)`.
/// Every expression carries a hint: its value on the traced example.
class SizeExpr {
 public:
  SizeExpr(int64_t value = 0) : hint_(value) {}  // NOLINT(google-explicit-constructor): a size is an integer first
  /// Makes the symbol `name` ([a-z][a-z0-9_]*), which had the value `hint` when traced.
  static SizeExpr symbol(std::string_view name, int64_t hint);
  /// Parses what str() prints. Errors: UserError shows the text and the place, or names a symbol that has no hint.
  static SizeExpr parse(std::string_view text, const std::map<std::string, int64_t>& hints = {});

  bool is_static() const { return polynomial_ == nullptr; }
  int64_t hint() const { return hint_; }
  /// The symbols that occur, with the value that each had when traced.
  std::map<std::string, int64_t> symbols() const;
  /// Returns the value for the given symbol values.
  /// Errors: UserError names a symbol that has no value, or says that the divisor does not divide, or that 64 bits
  /// overflow.
  int64_t evaluate(const std::map<std::string, int64_t>& symbols) const;
  std::string str() const;

  SizeExpr operator+(const SizeExpr& other) const;
  SizeExpr operator-(const SizeExpr& other) const;
  SizeExpr operator*(const SizeExpr& other) const;
  /// Divides by a positive integer; the polynomial keeps the divisor, so nothing is rounded before evaluation.
  SizeExpr divided_by(int64_t divisor) const;
  /// Returns the largest integer that is not above the value.
  SizeExpr floor() const;
  /// The integer by which the polynomial is divided; 1 for an integer.
  int64_t divisor() const;
  /// Whether it contains a rounded quotient, so that it is not a polynomial in its symbols.
  bool has_floors() const;
  /// Structural equality: same polynomial, or same integer.
  bool operator==(const SizeExpr& other) const;

  struct Polynomial;

 private:
  int64_t hint_;
  std::shared_ptr<const Polynomial> polynomial_;
};

}  // namespace diptych
