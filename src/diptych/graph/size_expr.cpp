#include "diptych/graph/size_expr.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <numeric>
#include <utility>
#include <vector>

#include "diptych/base/check.h"

namespace diptych {

using namespace detail;
namespace {

// Symbols and rounded quotients with their powers, by their text; the empty monomial is the constant term.
using Monomial = std::map<std::string, int>;

int degree(const Monomial& monomial) {
  return std::accumulate(monomial.begin(), monomial.end(), 0,
                         [](int sum, const auto& factor) { return sum + factor.second; });
}

// Highest degree first, as people write polynomials.
struct MonomialOrder {
  bool operator()(const Monomial& a, const Monomial& b) const {
    const int degree_a = degree(a), degree_b = degree(b);
    if (degree_a != degree_b) return degree_a > degree_b;
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
      return x.first != y.first ? x.first < y.first : x.second > y.second;
    });
  }
};
using Terms = std::map<Monomial, int64_t, MonomialOrder>;

constexpr int kMaxDegree = 32;

[[noreturn]] void throw_overflow() {
  detail::throw_user_error("[SizeExpr] the value does not fit in 64 bits; use smaller sizes");
}
int64_t checked_add(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) throw_overflow();
  return sum;
}
int64_t checked_multiply(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) throw_overflow();
  return product;
}

int64_t floor_divide(int64_t a, int64_t b) { return a / b - ((a % b != 0 && a < 0) ? 1 : 0); }

}  // namespace

struct SizeExpr::Polynomial {
  Terms terms;
  int64_t divisor = 1;
  std::map<std::string, int64_t> hints;
  std::map<std::string, SizeExpr> floors;  ///< the quotient that is rounded, by the text of its floor

  static Polynomial of(const SizeExpr& size) {
    if (size.polynomial_) return *size.polynomial_;
    Polynomial constant;
    if (size.hint_ != 0) constant.terms[{}] = size.hint_;
    return constant;
  }

  // Adds scale * other's terms; both sides already have the same divisor.
  void add(const Terms& other, int64_t scale) {
    for (const auto& [monomial, coefficient] : other) {
      auto& sum = terms[monomial];
      sum = checked_add(sum, checked_multiply(coefficient, scale));
    }
  }

  void merge_hints(const Polynomial& other) {
    hints.insert(other.hints.begin(), other.hints.end());
    floors.insert(other.floors.begin(), other.floors.end());
  }

  int64_t rounded(const std::map<std::string, int64_t>& values, const SizeExpr* reported) const {
    return floor_divide(numerator(values, reported), divisor);
  }

  int64_t value_of(const std::string& symbol, const std::map<std::string, int64_t>& values,
                   const SizeExpr* reported) const {
    const auto floor = floors.find(symbol);
    if (floor != floors.end()) return floor->second.polynomial_->rounded(values, reported);
    const auto value = values.find(symbol);
    DIPTYCH_CHECK(value != values.end(), "[SizeExpr::evaluate] symbol '{}' of '{}' has no value; give it one", symbol,
                  reported ? reported->str() : symbol);
    return value->second;
  }

  std::map<std::string, int64_t> symbols() const {
    std::map<std::string, int64_t> found;
    for (const auto& [symbol, hint] : hints) {
      const auto floor = floors.find(symbol);
      if (floor == floors.end()) {
        found[symbol] = hint;
      } else {
        found.merge(floor->second.symbols());
      }
    }
    return found;
  }

  int64_t numerator(const std::map<std::string, int64_t>& values, const SizeExpr* reported) const {
    int64_t sum = 0;
    for (const auto& [monomial, coefficient] : terms) {
      int64_t product = coefficient;
      for (const auto& [symbol, power] : monomial) {
        const int64_t value = value_of(symbol, values, reported);
        for (int i = 0; i < power; ++i) product = checked_multiply(product, value);
      }
      sum = checked_add(sum, product);
    }
    return sum;
  }

  // Drops zero terms and symbols that no term uses, and reduces the fraction, so that equal expressions are stored
  // alike.
  void normalize() {
    int64_t common = divisor;
    std::map<std::string, int64_t> used;
    for (auto term = terms.begin(); term != terms.end();) {
      if (term->second == 0) {
        term = terms.erase(term);
        continue;
      }
      if (term->second == INT64_MIN) throw_overflow();
      common = std::gcd(common, term->second);
      for (const auto& [symbol, power] : term->first) used[symbol] = hints.at(symbol);
      ++term;
    }
    hints = std::move(used);
    for (auto floor = floors.begin(); floor != floors.end();) {
      floor = hints.count(floor->first) == 0 ? floors.erase(floor) : std::next(floor);
    }
    divisor /= common;
    for (auto& [monomial, coefficient] : terms) coefficient /= common;
  }

  // A polynomial without symbols and without a divisor is an integer.
  static SizeExpr finish(Polynomial polynomial) {
    polynomial.normalize();
    SizeExpr result(polynomial.rounded(polynomial.symbols(), nullptr));
    const bool is_integer = polynomial.hints.empty() && polynomial.divisor == 1;
    if (!is_integer) result.polynomial_ = std::make_shared<const Polynomial>(std::move(polynomial));
    return result;
  }

  static SizeExpr combine(const SizeExpr& a, const SizeExpr& b, int64_t sign) {
    const Polynomial left = of(a), right = of(b);
    Polynomial sum;
    const int64_t common = std::gcd(left.divisor, right.divisor);
    sum.divisor = checked_multiply(left.divisor / common, right.divisor);
    sum.merge_hints(left);
    sum.merge_hints(right);
    sum.add(left.terms, right.divisor / common);
    sum.add(right.terms, sign * (left.divisor / common));
    return finish(std::move(sum));
  }
};

SizeExpr SizeExpr::symbol(std::string_view name, int64_t hint) {
  bool valid = !name.empty() && name[0] >= 'a' && name[0] <= 'z';
  for (const char c : name) valid = valid && ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_');
  DIPTYCH_CHECK(
      valid, "[SizeExpr::symbol] got the name '{}', expected a lower-case letter, then letters, digits or '_'", name);
  Polynomial polynomial;
  polynomial.terms[{{std::string(name), 1}}] = 1;
  polynomial.hints[std::string(name)] = hint;
  return Polynomial::finish(std::move(polynomial));
}

std::map<std::string, int64_t> SizeExpr::symbols() const {
  return polynomial_ ? polynomial_->symbols() : std::map<std::string, int64_t>{};
}

int64_t SizeExpr::evaluate(const std::map<std::string, int64_t>& symbols) const {
  if (!polynomial_) return hint_;
  const int64_t numerator = polynomial_->numerator(symbols, this);
  DIPTYCH_CHECK(numerator % polynomial_->divisor == 0,
                "[SizeExpr::evaluate] '{}' is {}/{} for these sizes, expected an integer; use sizes that are multiples "
                "of the divisor",
                str(), numerator, polynomial_->divisor);
  return numerator / polynomial_->divisor;
}

std::string SizeExpr::str() const {
  if (!polynomial_) return std::to_string(hint_);
  std::string text;
  for (const auto& [monomial, coefficient] : polynomial_->terms) {
    if (!text.empty() && coefficient > 0) text += '+';
    std::string product;
    for (const auto& [symbol, power] : monomial) {
      product += fmt::format("{}{}{}", product.empty() ? "" : "*", symbol, power > 1 ? fmt::format("^{}", power) : "");
    }
    if (product.empty()) {
      text += std::to_string(coefficient);
    } else if (coefficient == 1 || coefficient == -1) {
      text += (coefficient < 0 ? "-" : "") + product;
    } else {
      text += fmt::format("{}*{}", coefficient, product);
    }
  }
  if (polynomial_->divisor == 1) return text;
  if (polynomial_->terms.size() > 1) text = "(" + text + ")";
  return fmt::format("{}/{}", text, polynomial_->divisor);
}

SizeExpr SizeExpr::operator+(const SizeExpr& other) const {
  if (is_static() && other.is_static()) return checked_add(hint_, other.hint_);
  return Polynomial::combine(*this, other, 1);
}

SizeExpr SizeExpr::operator-(const SizeExpr& other) const {
  int64_t difference = 0;
  if (is_static() && other.is_static()) {
    if (__builtin_sub_overflow(hint_, other.hint_, &difference)) throw_overflow();
    return difference;
  }
  return Polynomial::combine(*this, other, -1);
}

SizeExpr SizeExpr::operator*(const SizeExpr& other) const {
  if (is_static() && other.is_static()) return checked_multiply(hint_, other.hint_);
  const auto left = Polynomial::of(*this), right = Polynomial::of(other);
  Polynomial product;
  product.divisor = checked_multiply(left.divisor, right.divisor);
  product.merge_hints(left);
  product.merge_hints(right);
  for (const auto& [monomial, coefficient] : left.terms) {
    Terms shifted;
    for (const auto& [other_monomial, other_coefficient] : right.terms) {
      Monomial joined = monomial;
      for (const auto& [symbol, power] : other_monomial) joined[symbol] += power;
      DIPTYCH_CHECK(degree(joined) <= kMaxDegree, "[SizeExpr] got a term of degree {}, expected at most {}",
                    degree(joined), kMaxDegree);
      shifted[joined] = other_coefficient;
    }
    product.add(shifted, coefficient);
  }
  return Polynomial::finish(std::move(product));
}

SizeExpr SizeExpr::divided_by(int64_t divisor) const {
  DIPTYCH_CHECK(divisor > 0, "[SizeExpr::divided_by] got the divisor {}, expected a positive one", divisor);
  if (is_static() && hint_ % divisor == 0) return hint_ / divisor;
  auto quotient = Polynomial::of(*this);
  quotient.divisor = checked_multiply(quotient.divisor, divisor);
  return Polynomial::finish(std::move(quotient));
}

SizeExpr SizeExpr::floor() const {
  if (!polynomial_ || polynomial_->divisor == 1) return *this;
  const int64_t hint = polynomial_->rounded(symbols(), nullptr);
  if (polynomial_->hints.empty()) return hint;
  const std::string text = fmt::format("floor({})", str());
  Polynomial rounded;
  rounded.terms[{{text, 1}}] = 1;
  rounded.hints[text] = hint;
  rounded.floors.emplace(text, *this);
  return Polynomial::finish(std::move(rounded));
}

int64_t SizeExpr::divisor() const { return polynomial_ ? polynomial_->divisor : 1; }

bool SizeExpr::has_floors() const { return polynomial_ && !polynomial_->floors.empty(); }

bool SizeExpr::operator==(const SizeExpr& other) const {
  if (!polynomial_ || !other.polynomial_) return !polynomial_ && !other.polynomial_ && hint_ == other.hint_;
  return polynomial_ == other.polynomial_ ||
         (polynomial_->divisor == other.polynomial_->divisor && polynomial_->terms == other.polynomial_->terms);
}

namespace {

// Reads sum := term (('+'|'-') term)*; term := factor ('*' factor | '/' integer)*;
// factor := integer | base ['^' integer] | '(' sum ')' | '-' factor; base := symbol | 'floor(' sum ')'.
class SizeParser {
 public:
  SizeParser(std::string_view text, const std::map<std::string, int64_t>& hints) : text_(text), hints_(hints) {}

  SizeExpr run() {
    SizeExpr result = sum();
    if (at_ != text_.size()) fail("an operator or the end");
    return result;
  }

 private:
  [[noreturn]] void fail(std::string_view expected) const {
    const auto got = at_ < text_.size() ? fmt::format("'{}'", text_.substr(at_, 8)) : "the end";
    detail::throw_user_error(fmt::format("[SizeExpr::parse] '{}', column {}: got {}, expected {}", text_.substr(0, 200),
                                         at_ + 1, got, expected));
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool accept(char c) {
    if (peek() != c || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }

  int64_t integer(bool negative) {
    const auto first = at_;
    while (std::isdigit(static_cast<unsigned char>(peek()))) ++at_;
    const std::string digits = (negative ? "-" : "") + std::string(text_.substr(first, at_ - first));
    int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      at_ = first;
      fail("an integer of 64 bits");
    }
    return value;
  }

  SizeExpr sum() {
    if (++depth_ > 50) fail("fewer parentheses");
    SizeExpr result = term();
    while (true) {
      if (accept('+')) {
        result = result + term();
      } else if (accept('-')) {
        result = result - term();
      } else {
        --depth_;
        return result;
      }
    }
  }

  SizeExpr term() {
    SizeExpr result = factor();
    while (true) {
      if (accept('*')) {
        result = result * factor();
      } else if (accept('/')) {
        const int64_t divisor = integer(false);
        if (divisor <= 0) fail("a positive divisor before this");
        result = result.divided_by(divisor);
      } else {
        return result;
      }
    }
  }

  SizeExpr factor() {
    const bool negative = accept('-');
    if (std::isdigit(static_cast<unsigned char>(peek()))) return integer(negative);
    SizeExpr result = atom();
    return negative ? SizeExpr(-1) * result : result;
  }

  SizeExpr atom() {
    if (accept('(')) {
      SizeExpr inner = sum();
      if (!accept(')')) fail("')'");
      return inner;
    }
    if (!(peek() >= 'a' && peek() <= 'z')) fail("an integer, a symbol or '('");
    const auto first = at_;
    while ((peek() >= 'a' && peek() <= 'z') || std::isdigit(static_cast<unsigned char>(peek())) || peek() == '_') ++at_;
    const SizeExpr base = named(std::string(text_.substr(first, at_ - first)), first);
    SizeExpr power = base;
    const int64_t exponent = accept('^') ? integer(false) : 1;
    if (exponent < 1 || exponent > kMaxDegree) fail("a power from 1 to 32 before this");
    for (int64_t i = 1; i < exponent; ++i) power = power * base;
    return power;
  }

  SizeExpr named(const std::string& name, size_t first) {
    if (name == "floor" && accept('(')) {
      const SizeExpr quotient = sum();
      if (!accept(')')) fail("')'");
      return quotient.floor();
    }
    const auto hint = hints_.find(name);
    if (hint == hints_.end()) {
      at_ = first;
      fail("a symbol that has a hint");
    }
    return SizeExpr::symbol(name, hint->second);
  }

  std::string_view text_;
  const std::map<std::string, int64_t>& hints_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

SizeExpr SizeExpr::parse(std::string_view text, const std::map<std::string, int64_t>& hints) {
  return SizeParser(text, hints).run();
}

}  // namespace diptych
