#include "diptych/graph/size_fitter.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace diptych::detail {
namespace {

constexpr int64_t kLargestDivisor = 64;
constexpr int64_t kLargestFactor = 4;
constexpr int64_t kLargestPart = 24;                // for the constant part of a quotient whose other part changes
constexpr double kLargestExact = 4503599627370496;  // 2^52
constexpr size_t kLeastRun = 6;  // points beyond those of a polynomial; with fewer, many quotients fit

int64_t floor_of(int64_t a, int64_t b) { return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0); }

// `value = slope * base + offset` at all points.
struct Line {
  int64_t slope;
  int64_t offset;
};
std::optional<Line> line_through(c10::ArrayRef<int64_t> base, c10::ArrayRef<int64_t> values) {
  const auto [low, high] = std::minmax_element(base.begin(), base.end());
  if (*low == *high) return std::nullopt;
  const int64_t rise = values[high - base.begin()] - values[low - base.begin()];
  if (rise == 0 || rise % (*high - *low) != 0) return std::nullopt;
  const int64_t slope = rise / (*high - *low);
  const int64_t offset = values[low - base.begin()] - slope * *low;
  for (size_t i = 0; i < values.size(); ++i) {
    if (slope * base[i] + offset != values[i]) return std::nullopt;
  }
  return Line{slope, offset};
}

std::vector<int64_t> multiplied(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  std::vector<int64_t> product(a.size());
  // Unsigned, so that overflow is defined; a product that overflows fits nothing anyway.
  std::transform(a.begin(), a.end(), b.begin(), product.begin(), [](int64_t x, int64_t y) {
    return static_cast<int64_t>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
  });
  return product;
}

// The one b for which floor((a * base + b) / d) has these values; none if there is no such b or more than one.
std::optional<int64_t> only_shift(c10::ArrayRef<int64_t> base, c10::ArrayRef<int64_t> values, int64_t a, int64_t d) {
  int64_t low = INT64_MIN, high = INT64_MAX;
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t first = d * values[i] - a * base[i];
    low = std::max(low, first);
    high = std::min(high, first + d - 1);
    if (low > high) return std::nullopt;
  }
  return low == high ? std::optional(low) : std::nullopt;
}

int64_t nearest(double number) { return std::abs(number) < kLargestExact ? std::llround(number) : 0; }

double quotient_of(SizeNumber::Form form, double value) {
  switch (form) {
    case SizeNumber::Form::kQuotient:
      return value;
    case SizeNumber::Form::kRoot:
      return value * value;
    case SizeNumber::Form::kInverseRoot:
      return 1.0 / (value * value);
    case SizeNumber::Form::kLogarithm:
      return std::exp(value);
  }
  return value;
}

}  // namespace

SizeFitter::SizeFitter(c10::ArrayRef<SymbolValues> points, size_t num_symbols)
    : points_(points), num_symbols_(num_symbols) {
  for (const Powers& powers : power_products(num_symbols, 2)) {
    Base base{1, {}};
    for (size_t s = 0; s < num_symbols; ++s) {
      const SizeExpr symbol = SizeExpr::symbol(SizePattern::name_of(s), points[0][s]);
      for (uint8_t p = 0; p < powers[s]; ++p) base.expression = base.expression * symbol;
    }
    if (base.expression.is_static()) continue;
    for (const auto& point : points) base.values.push_back(static_cast<int64_t>(product_at(powers, point)));
    if (std::accumulate(powers.begin(), powers.end(), 0) == 1) bases_.push_back(base);
    products_.push_back(std::move(base));
  }
}

std::optional<SizeExpr> SizeFitter::fit(c10::ArrayRef<int64_t> values) {
  if (num_bases_of_known_ != bases_.size()) {
    known_.clear();
    num_bases_of_known_ = bases_.size();
  }
  const std::vector<int64_t> key = values.vec();
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  auto found = find(key);
  known_.emplace(key, found);
  return found;
}

void SizeFitter::learn(c10::ArrayRef<int64_t> values) {
  constexpr size_t kMostBases = 32;
  const auto found = fit(values);
  const bool is_known =
      std::any_of(bases_.begin(), bases_.end(), [&](const Base& base) { return values == base.values; });
  if (found && found->has_floors() && !is_known && bases_.size() < kMostBases) bases_.push_back({*found, values.vec()});
}

std::optional<SizeExpr> SizeFitter::find(const std::vector<int64_t>& values) {
  if (auto polynomial = fit_size(values, points_, num_symbols_)) return polynomial;
  if (auto product = fit_products(values)) return product;
  if (auto quotient = fit_floor(values)) return quotient;
  return fit_difference(values);
}

std::optional<SizeExpr> SizeFitter::fit_products(const std::vector<int64_t>& values) const {
  const auto as_line = [&](const std::vector<int64_t>& base, const auto& expression) -> std::optional<SizeExpr> {
    const auto line = line_through(base, values);
    if (!line) return std::nullopt;
    return expression() * SizeExpr(line->slope) + SizeExpr(line->offset);
  };
  // At least one factor is a quotient, since products of symbols alone have been tried.
  for (size_t i = num_symbols_; i < bases_.size(); ++i) {
    const Base& a = bases_[i];
    if (auto found = as_line(a.values, [&] { return a.expression; })) return found;
    for (size_t j = 0; j <= i; ++j) {
      const Base& b = bases_[j];
      const auto two = multiplied(a.values, b.values);
      if (auto found = as_line(two, [&] { return a.expression * b.expression; })) return found;
      for (size_t k = 0; k <= j; ++k) {
        const Base& c = bases_[k];
        const auto expression = [&] { return a.expression * b.expression * c.expression; };
        if (auto found = as_line(multiplied(two, c.values), expression)) return found;
      }
    }
  }
  return std::nullopt;
}

std::optional<SizeExpr> SizeFitter::fit_difference(const std::vector<int64_t>& values) const {
  for (size_t s = 0; s < num_symbols_; ++s) {
    std::vector<int64_t> rest(values.size());
    std::transform(values.begin(), values.end(), bases_[s].values.begin(), rest.begin(), std::minus<>());
    if (const auto found = fit_products(rest)) return *found + bases_[s].expression;
  }
  return std::nullopt;
}

std::optional<SizeExpr> SizeFitter::fit_floor(const std::vector<int64_t>& values) {
  if (points_.size() < num_fit_points(num_symbols_) + kLeastRun) return std::nullopt;
  for (const Base& product : products_) {
    for (int64_t divisor = 2; divisor <= kLargestDivisor; ++divisor) {
      for (int64_t factor = 1; factor <= kLargestFactor; ++factor) {
        if (std::gcd(factor, divisor) != 1) continue;
        const auto shift = only_shift(product.values, values, factor, divisor);
        if (!shift) continue;
        // Multiples of the divisor are added outside, so that each quotient has only one form.
        const int64_t outside = floor_of(*shift, divisor);
        const SizeExpr inside = product.expression * SizeExpr(factor) + SizeExpr(*shift - outside * divisor);
        Base base{inside.divided_by(divisor).floor(), values};
        for (int64_t& value : base.values) value -= outside;
        const SizeExpr result = base.expression + SizeExpr(outside);
        bases_.push_back(std::move(base));
        return result;
      }
    }
  }
  return std::nullopt;
}

std::optional<SizeNumber> SizeFitter::number_of(c10::ArrayRef<double> values, SizeNumber::Form form,
                                                const std::vector<int64_t>& top, const std::vector<int64_t>& bottom) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (bottom[i] == 0) return std::nullopt;
    const double quotient = static_cast<double>(top[i]) / static_cast<double>(bottom[i]);
    if (SizeNumber::apply(form, quotient) != values[i]) return std::nullopt;
  }
  const auto above = fit(top), below = fit(bottom);
  if (!above || !below) return std::nullopt;
  return SizeNumber{form, *above, *below};
}

std::optional<SizeNumber> SizeFitter::fit_quotient(c10::ArrayRef<double> values, SizeNumber::Form form,
                                                   c10::ArrayRef<double> quotients) {
  const auto top_for = [&](const std::vector<int64_t>& bottom) {
    std::vector<int64_t> top;
    for (size_t i = 0; i < quotients.size(); ++i) {
      top.push_back(nearest(quotients[i] * static_cast<double>(bottom[i])));
    }
    return top;
  };
  for (int64_t part = 1; part <= kLargestPart; ++part) {
    const std::vector<int64_t> parts(values.size(), part);
    if (auto found = number_of(values, form, top_for(parts), parts)) return found;
    std::vector<int64_t> bottom;
    for (const double quotient : quotients) bottom.push_back(nearest(static_cast<double>(part) / quotient));
    if (auto found = number_of(values, form, parts, bottom)) return found;
  }
  for (size_t b = 0; b < products_.size() + bases_.size(); ++b) {
    std::vector<int64_t> bottom = b < products_.size() ? products_[b].values : bases_[b - products_.size()].values;
    for (const int64_t step : {0, 1, -2}) {  // n, n + 1 and n - 1
      for (int64_t& value : bottom) value += step;
      if (auto found = number_of(values, form, top_for(bottom), bottom)) return found;
    }
  }
  return std::nullopt;
}

std::optional<SizeNumber> SizeFitter::fit_number(c10::ArrayRef<double> values) {
  using Form = SizeNumber::Form;
  for (const Form form : {Form::kQuotient, Form::kRoot, Form::kInverseRoot, Form::kLogarithm}) {
    std::vector<double> quotients;
    for (const double value : values) quotients.push_back(quotient_of(form, value));
    const bool fits = std::all_of(quotients.begin(), quotients.end(), [](double quotient) {
      const double size = std::abs(quotient);
      return size < kLargestExact / (2 * kLargestPart) && size > 1 / kLargestExact;
    });
    if (!fits) continue;
    if (auto found = fit_quotient(values, form, quotients)) return found;
  }
  return std::nullopt;
}

}  // namespace diptych::detail
