#include "diptych/ops/samplers.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numbers>
#include <unordered_map>
#include <utility>

#include "diptych/ops/draw_bits.h"

namespace diptych::detail {
namespace {

int64_t significant_digits(at::ScalarType dtype) {
  if (dtype == at::kHalf) return std::numeric_limits<c10::Half>::digits;
  if (dtype == at::kBFloat16) return std::numeric_limits<c10::BFloat16>::digits;
  return dtype == at::kDouble ? std::numeric_limits<double>::digits : std::numeric_limits<float>::digits;
}

// Whole numbers of so many binary digits, all equally likely, in a floating-point dtype.
Expr whole_numbers(BitStream& bits, const std::vector<int64_t>& sizes, int64_t digits, at::ScalarType dtype) {
  const Expr drawn = bits.take(sizes, digits < 32 ? at::kInt : at::kLong);
  return drawn.apply("aten.bitwise_and.Scalar", {c10::IValue((int64_t{1} << digits) - 1)}).to(dtype);
}

// Multiples of the spacing below 1 of `grid`, from 0 on and less than 1, as eager's.
Expr uniform_numbers(BitStream& bits, const std::vector<int64_t>& sizes, at::ScalarType grid) {
  const int64_t digits = significant_digits(grid);
  return whole_numbers(bits, sizes, digits, compute_dtype(grid)) * std::ldexp(1.0, static_cast<int>(-digits));
}

// Greater than 0 and less than 1: the middles of equal intervals.
Expr inner_numbers(BitStream& bits, const std::vector<int64_t>& sizes, at::ScalarType dtype) {
  const int64_t digits = significant_digits(dtype) - 1;
  return (whole_numbers(bits, sizes, digits, dtype) + 0.5) * std::ldexp(1.0, static_cast<int>(-digits));
}

// erfinv(1 - tail) for f32, whose own kernel computes in double. The error is 1e-6 of the result, and 4e-4 at the
// smallest tail, 2^-32. Source: Giles, Approximating the erfinv function, GPU Computing Gems 2, 2010.
Expr inverse_error_of_tail(Expr tail) {
  constexpr std::pair<double, double> kCoefficients[] = {
      {2.81022636e-08, -0.000200214257}, {3.43273939e-07, 0.000100950558}, {-3.5233877e-06, 0.00134934322},
      {-4.39150654e-06, -0.00367342844}, {0.00021858087, 0.00573950773},   {-0.00125372503, -0.0076224613},
      {-0.00417768164, 0.00943887047},   {0.246640727, 1.00167406},        {1.50140941, 2.83297682}};
  const Expr w = -(tail * (2.0 - tail)).apply("aten.log");
  const Expr is_central = w < 5.0;
  const Expr x = where(is_central, w - 2.5, w.apply("aten.sqrt") - 3.0);
  const auto coefficient = [&](size_t i) {
    const auto& [central, outer] = kCoefficients[i];
    return where(is_central, central, x.apply("aten.full_like", {c10::IValue(outer)}));
  };
  Expr result = coefficient(0);
  for (size_t i = 1; i < std::size(kCoefficients); ++i) result = result * x + coefficient(i);
  return result * (1.0 - tail);
}

// By the inverse of their distribution. In f32 one bit is the sign, and the others say how far out a number lies, so
// that those far out, where numbers are few, have as many bits as the others.
Expr normal_numbers(BitStream& bits, const std::vector<int64_t>& sizes, at::ScalarType dtype) {
  if (dtype == at::kDouble) {
    return (inner_numbers(bits, sizes, dtype) * 2.0 - 1.0).apply("aten.erfinv") * std::numbers::sqrt2;
  }
  const Expr drawn = bits.take(sizes, at::kInt);
  const Expr far = drawn.apply("aten.bitwise_and.Scalar", {c10::IValue(std::numeric_limits<int32_t>::max())}).to(dtype);
  const Expr distance = inverse_error_of_tail((far + 0.5) * std::ldexp(1.0, -31)) * std::numbers::sqrt2;
  const Expr is_negative = drawn.apply("aten.lt.Scalar", {c10::IValue(0)});
  return where(is_negative, -distance, distance);
}

Expr scaled(Expr x, double factor, double offset) {
  if (factor != 1) x = x * factor;
  return offset == 0 ? x : x + offset;
}

// The number at a position of the operands; `otherwise` for the negative position.
template <int kPosition>
double number_at(const Call& call, double otherwise) {
  if constexpr (kPosition < 0) return otherwise;
  return call.number(static_cast<size_t>(kPosition));
}

template <int kFrom, int kTo>
Expr uniform(const Call& call, const TensorMeta& result, BitStream& bits) {
  const double from = number_at<kFrom>(call, 0), to = number_at<kTo>(call, 1);
  return scaled(uniform_numbers(bits, result.size_hints(), result.dtype), to - from, from).to(result.dtype);
}

template <int kMean, int kDeviation>
Expr normal(const Call& call, const TensorMeta& result, BitStream& bits) {
  const Expr drawn = normal_numbers(bits, result.size_hints(), compute_dtype(result.dtype));
  return scaled(drawn, number_at<kDeviation>(call, 1), number_at<kMean>(call, 0)).to(result.dtype);
}

Expr log_normal(const Call& call, const TensorMeta& result, BitStream& bits) {
  const Expr drawn = normal_numbers(bits, result.size_hints(), compute_dtype(result.dtype));
  return scaled(drawn, call.number(2), call.number(1)).apply("aten.exp").to(result.dtype);
}

Expr exponential(const Call& call, const TensorMeta& result, BitStream& bits) {
  const Expr drawn = inner_numbers(bits, result.size_hints(), compute_dtype(result.dtype));
  return (drawn.apply("aten.log") * (-1.0 / call.number(1))).to(result.dtype);
}

Expr cauchy(const Call& call, const TensorMeta& result, BitStream& bits) {
  const Expr drawn = inner_numbers(bits, result.size_hints(), compute_dtype(result.dtype)) - 0.5;
  return scaled((drawn * std::numbers::pi).apply("aten.tan"), call.number(2), call.number(1)).to(result.dtype);
}

// How many trials there are up to the first success.
Expr geometric(const Call& call, const TensorMeta& result, BitStream& bits) {
  const auto dtype = at::isFloatingType(result.dtype) ? compute_dtype(result.dtype) : at::kDouble;
  const Expr drawn = inner_numbers(bits, result.size_hints(), dtype).apply("aten.log");
  return (drawn * (1.0 / std::log1p(-call.number(1)))).apply("aten.ceil").to(result.dtype);
}

// True where 32 bits, read as a whole number, are among the first of the 2^32 that there are.
Expr truth(const Call& call, const TensorMeta& result, BitStream& bits) {
  const auto count = static_cast<int64_t>(std::llround(std::ldexp(call.number(1), 32)));
  const Expr drawn = bits.take(result.size_hints(), at::kInt);
  const int64_t end = count + std::numeric_limits<int32_t>::min();
  if (end > std::numeric_limits<int32_t>::max()) {
    return drawn.apply("aten.full_like", {c10::IValue(1), c10::IValue(result.dtype)});
  }
  return drawn.apply("aten.lt.Scalar", {c10::IValue(end)}).to(result.dtype);
}

template <int kLow, int kHigh>
Expr between(const Call& call, const TensorMeta& result, BitStream& bits) {
  const int64_t low = kLow < 0 ? 0 : call.integer(static_cast<size_t>(std::max(kLow, 0)));
  const int64_t high = call.integer(kHigh);
  const Expr positive = bits.take(result.size_hints(), at::kLong)
                            .apply("aten.bitwise_and.Scalar", {c10::IValue(std::numeric_limits<int64_t>::max())});
  const Expr drawn = positive.apply("aten.remainder.Scalar", {c10::IValue(high - low)});
  return (low == 0 ? drawn : drawn.apply("aten.add.Scalar", {c10::IValue(low)})).to(result.dtype);
}

const c10::IValue* constant_of(const Node& node, int position) {
  return position < 0 ? nullptr : std::get_if<c10::IValue>(&node.operands[position]);
}

bool is_float(const Node& /*node*/, const TensorMeta& result) { return at::isFloatingType(result.dtype); }

// Whether the operand at a position is a finite number of a range; a negative position has none to look at.
template <int kPosition>
bool has_number(const Node& node, double least, double most) {
  if constexpr (kPosition < 0) return true;
  const auto* const constant = constant_of(node, kPosition);
  if (constant == nullptr || !(constant->isScalar() || constant->isDouble() || constant->isInt())) return false;
  const double number = constant->toScalar().toDouble();
  return std::isfinite(number) && number >= least && number <= most;
}

constexpr double kMost = std::numeric_limits<double>::max();
constexpr double kLeast = std::numeric_limits<double>::min();

template <int kFrom, int kTo>
bool is_interval(const Node& node, const TensorMeta& result) {
  if (!is_float(node, result) || !has_number<kFrom>(node, -kMost, kMost) || !has_number<kTo>(node, -kMost, kMost)) {
    return false;
  }
  return constant_of(node, kFrom)->toScalar().toDouble() <= constant_of(node, kTo)->toScalar().toDouble();
}

template <int kLocation, int kScale>
bool has_scale(const Node& node, const TensorMeta& result) {
  return is_float(node, result) && has_number<kLocation>(node, -kMost, kMost) && has_number<kScale>(node, 0, kMost);
}

bool has_rate(const Node& node, const TensorMeta& result) {
  return is_float(node, result) && has_number<1>(node, kLeast, kMost);
}

bool has_probability(const Node& node, const TensorMeta& /*result*/) { return has_number<1>(node, 0, 1); }

bool has_inner_probability(const Node& node, const TensorMeta& result) {
  const bool is_real = is_float(node, result) || (at::isIntegralType(result.dtype, false));
  return is_real && has_number<1>(node, kLeast, 1 - std::numeric_limits<double>::epsilon());
}

// The remainder of 63 bits favours small numbers by less than one part in 2^31 for ranges up to 2^32.
template <int kLow, int kHigh>
bool is_small_range(const Node& node, const TensorMeta& result) {
  constexpr int64_t kLargest = int64_t{1} << 32;
  const auto* const low = constant_of(node, kLow);
  const auto* const high = constant_of(node, kHigh);
  if ((kLow >= 0 && (low == nullptr || !low->isInt())) || high == nullptr || !high->isInt()) return false;
  const int64_t first = kLow < 0 ? 0 : low->toInt(), end = high->toInt();
  if (at::isComplexType(result.dtype) || end <= first) return false;
  return first >= -kLargest && end <= kLargest && end - first <= kLargest;
}

bool has_generator(const Node& node) {
  for (const Operand& operand : node.operands) {
    const auto* const constant = std::get_if<c10::IValue>(&operand);
    if (constant != nullptr && constant->isGenerator()) return true;
  }
  return false;
}

}  // namespace

BitStream::BitStream(Emitter& emitter, Value state) : emitter_(emitter), state_(state) { draw_bits_operator(); }

Expr BitStream::take(const std::vector<int64_t>& sizes, at::ScalarType dtype) {
  const auto results = emitter_.call_all("diptych.draw_bits", {state_, c10::IValue(sizes), c10::IValue(dtype)});
  state_ = results[1];
  return {&emitter_, results[0]};
}

const std::vector<Sampler>& all_samplers() {
  static const auto* const table = new std::vector<Sampler>{
      {"aten.rand", uniform<-1, -1>, is_float},
      {"aten.rand.generator", uniform<-1, -1>, is_float},
      {"aten.rand_like", uniform<-1, -1>, is_float},
      {"aten.rand_like.generator", uniform<-1, -1>, is_float},
      {"aten.uniform", uniform<1, 2>, is_interval<1, 2>},
      {"aten.randn", normal<-1, -1>, is_float},
      {"aten.randn.generator", normal<-1, -1>, is_float},
      {"aten.randn_like", normal<-1, -1>, is_float},
      {"aten.randn_like.generator", normal<-1, -1>, is_float},
      {"aten.normal_functional", normal<1, 2>, has_scale<1, 2>},
      {"aten.normal.float_float", normal<0, 1>, has_scale<0, 1>},
      {"aten.log_normal", log_normal, has_scale<1, 2>},
      {"aten.exponential", exponential, has_rate},
      {"aten.cauchy", cauchy, has_scale<1, 2>},
      {"aten.geometric", geometric, has_inner_probability},
      {"aten.bernoulli.p", truth, has_probability},
      {"aten.randint", between<-1, 0>, is_small_range<-1, 0>},
      {"aten.randint.generator", between<-1, 0>, is_small_range<-1, 0>},
      {"aten.randint.low", between<0, 1>, is_small_range<0, 1>},
      {"aten.randint.low_generator", between<0, 1>, is_small_range<0, 1>},
      {"aten.randint_like", between<-1, 1>, is_small_range<-1, 1>},
      {"aten.randint_like.generator", between<-1, 1>, is_small_range<-1, 1>},
      {"aten.randint_like.low_dtype", between<1, 2>, is_small_range<1, 2>},
      {"aten.randint_like.low_generator_dtype", between<1, 2>, is_small_range<1, 2>},
      {"aten.random.to", between<-1, 1>, is_small_range<-1, 1>},
      {"aten.random.from", between<1, 2>, is_small_range<1, 2>},
  };
  return *table;
}

const Sampler* find_sampler(const Graph& graph, const Node& node) {
  if (node.op.is_hop() || node.outputs.size() != 1 || !node.outputs[0]) return nullptr;
  static const auto* const index = [] {
    auto* rows = new std::unordered_map<std::string_view, const Sampler*>;
    for (const Sampler& row : all_samplers()) rows->emplace(row.op, &row);
    return rows;
  }();
  const auto found = index->find(node.op.name());
  if (found == index->end() || has_generator(node)) return nullptr;
  const TensorMeta& result = graph.meta(node.outputs[0]);
  const bool is_plain = result.is_static() && result.device.is_cpu() && result.numel() > 0;
  return is_plain && found->second->covers(node, result) ? found->second : nullptr;
}

}  // namespace diptych::detail
