// Layer and batch normalization with their gradients. Statistics are of the dtype that kernels compute in.
#include <numeric>

#include "diptych/ops/decompositions.h"

namespace diptych::detail {
namespace {

std::vector<int64_t> range(int64_t begin, int64_t end) {
  std::vector<int64_t> dims(static_cast<size_t>(std::max<int64_t>(end - begin, 0)));
  std::iota(dims.begin(), dims.end(), begin);
  return dims;
}

struct Statistics {
  Expr mean;
  Expr variance;  ///< biased
};

Statistics statistics(Expr x, const std::vector<int64_t>& dims) {
  const Expr mean = x.mean(dims, /*keepdim=*/true);
  const Expr centered = x - mean;
  return {mean, (centered * centered).mean(dims, /*keepdim=*/true)};
}

Expr inverse_root(Expr variance, double epsilon) { return (variance + epsilon).apply("aten.rsqrt"); }

Value cast_or_none(bool is_wanted, Expr value, at::ScalarType dtype) {
  return is_wanted ? value.to(dtype).value : Value{};
}

// What the mean and the deviation that are kept for the gradient are of: beside a half, float32 where a parameter is.
at::ScalarType kept_dtype(const Call& call, std::initializer_list<size_t> parameters) {
  const at::ScalarType dtype = call.tensor(0).meta().dtype;
  const auto is_float = [&](size_t i) {
    const auto parameter = call.optional_tensor(i);
    return parameter && parameter->meta().dtype == at::kFloat;
  };
  const bool is_half = dtype == at::kHalf || dtype == at::kBFloat16;
  return is_half && std::any_of(parameters.begin(), parameters.end(), is_float) ? at::kFloat : dtype;
}

std::vector<Value> layer_norm(const Call& call) {
  const Expr x = call.wide(0);
  const auto shape = call.integers(1);
  if (x.meta().numel() == 0) return {};
  const auto [mean, variance] = statistics(x, range(x.rank() - static_cast<int64_t>(shape.size()), x.rank()));
  const Expr rstd = inverse_root(variance, call.number(4));
  Expr y = (x - mean) * rstd;
  if (const auto weight = call.optional_tensor(2)) y = y * weight->to(x.meta().dtype);
  if (const auto bias = call.optional_tensor(3)) y = y + bias->to(x.meta().dtype);
  const at::ScalarType kept = kept_dtype(call, {2, 3});
  return {y.to(call.tensor(0).meta().dtype).value, mean.to(kept).value, rstd.to(kept).value};
}

std::vector<Value> layer_norm_backward(const Call& call) {
  const Expr g = call.wide(0);
  const Expr x = call.wide(1);
  if (x.meta().numel() == 0) return {};
  const auto first = x.rank() - static_cast<int64_t>(call.integers(2).size());
  const auto inner = range(first, x.rank());
  const auto outer = range(0, first);
  const Expr rstd = call.wide(4);
  const Expr normal = (x - call.wide(3)) * rstd;
  const auto weight = call.optional_tensor(5);
  const Expr scaled = weight ? g * weight->to(g.meta().dtype) : g;
  std::vector<Value> results(3);
  if (call.mask(7, 0)) {
    const Expr along = normal * (scaled * normal).mean(inner, /*keepdim=*/true);
    results[0] = ((scaled - scaled.mean(inner, /*keepdim=*/true) - along) * rstd).to(call.tensor(1).meta().dtype).value;
  }
  if (weight)
    results[1] = cast_or_none(call.mask(7, 1), (g * normal).sum(outer, /*keepdim=*/false), weight->meta().dtype);
  if (const auto bias = call.optional_tensor(6)) {
    results[2] = cast_or_none(call.mask(7, 2), g.sum(outer, /*keepdim=*/false), bias->meta().dtype);
  }
  return results;
}

/// A batch's dimensions: all but the channels, and the shape that spreads a vector of channels over them.
struct Channels {
  std::vector<int64_t> dims;
  std::vector<int64_t> spread;

  explicit Channels(Expr x) : dims(range(2, x.rank())), spread(static_cast<size_t>(x.rank()), 1) {
    dims.insert(dims.begin(), 0);
    spread[1] = x.size(1);
  }
  Expr over(Expr vector) const { return vector.view(spread); }
};

Expr scale_and_shift(const Call& call, const Channels& channels, Expr normal) {
  if (const auto weight = call.optional_tensor(1)) normal = normal * channels.over(weight->to(normal.meta().dtype));
  if (const auto bias = call.optional_tensor(2)) normal = normal + channels.over(bias->to(normal.meta().dtype));
  return normal.to(call.tensor(0).meta().dtype);
}

// momentum * fresh + (1 - momentum) * running
Expr moved(Expr running, Expr fresh, double momentum) { return running * (1.0 - momentum) + fresh * momentum; }

std::vector<Value> batch_norm_functional(const Call& call) {
  const Expr x = call.wide(0);
  if (x.rank() < 2 || x.meta().numel() == 0) return {};
  const Channels channels(x);
  const Expr running_mean = call.tensor(3);
  const Expr running_variance = call.tensor(4);
  if (!call.flag(5)) return {};
  const auto [mean, variance] = statistics(x, channels.dims);
  const Expr invstd = inverse_root(variance, call.number(7));
  const Expr y = scale_and_shift(call, channels, (x - mean) * invstd);
  const auto flat = [&](Expr statistic) { return statistic.view({x.size(1)}); };
  const double count = static_cast<double>(x.meta().numel()) / static_cast<double>(x.size(1));
  const Expr unbiased = flat(variance) * (count / (count - 1.0));
  // What is kept for the gradient has the dtype of the statistics.
  const auto kept = running_mean.meta().dtype;
  return {y.value, flat(mean).to(kept).value, flat(invstd).to(kept).value,
          moved(running_mean, flat(mean), call.number(6)).to(running_mean.meta().dtype).value,
          moved(running_variance, unbiased, call.number(6)).to(running_variance.meta().dtype).value};
}

// Outside training: the running statistics are read, and the kernel returns empty ones.
std::vector<Value> batch_norm_by_running(const Call& call, double epsilon) {
  const Expr x = call.wide(0);
  if (x.rank() < 2) return {};
  const Channels channels(x);
  const Expr invstd = inverse_root(call.wide(4), epsilon);
  const Expr y = scale_and_shift(call, channels, (x - channels.over(call.wide(3))) * channels.over(invstd));
  const Expr running_mean = call.tensor(3);
  const auto nothing = [&] {
    return running_mean.apply("aten.new_zeros", {c10::IValue(std::vector<int64_t>{0})}).value;
  };
  return {y.value, nothing(), nothing()};
}

std::vector<Value> batch_norm_no_training(const Call& call) { return batch_norm_by_running(call, call.number(6)); }

std::vector<Value> batch_norm(const Call& call) {
  // In training the kernel writes to the running statistics, which a decomposition can't do.
  if (call.flag(5) || !call.optional_tensor(3) || !call.optional_tensor(4)) return {};
  return batch_norm_by_running(call, call.number(7));
}

std::vector<Value> batch_norm_backward(const Call& call) {
  const Expr g = call.wide(0);
  const Expr x = call.wide(1);
  const bool is_training = call.flag(7);
  const size_t first_statistic = is_training ? 5 : 3;
  if (x.rank() < 2 || x.meta().numel() == 0 || !call.optional_tensor(first_statistic)) return {};
  const Channels channels(x);
  const Expr mean = channels.over(call.wide(first_statistic));
  const Expr invstd = channels.over(is_training ? call.wide(6) : inverse_root(call.wide(4), call.number(8)));
  const Expr normal = (x - mean) * invstd;
  const auto weight = call.optional_tensor(2);
  const auto vector_dtype = weight ? weight->meta().dtype : x.meta().dtype;
  std::vector<Value> results(3);
  if (call.mask(9, 0)) {
    const Expr along = normal * (g * normal).mean(channels.dims, /*keepdim=*/true);
    const Expr centered = is_training ? g - g.mean(channels.dims, /*keepdim=*/true) - along : g;
    const Expr scaled = centered * invstd;
    const Expr dx = weight ? scaled * channels.over(weight->to(x.meta().dtype)) : scaled;
    results[0] = dx.to(call.tensor(1).meta().dtype).value;
  }
  if (call.mask(9, 1)) results[1] = (g * normal).sum(channels.dims, /*keepdim=*/false).to(vector_dtype).value;
  if (call.mask(9, 2)) results[2] = g.sum(channels.dims, /*keepdim=*/false).to(vector_dtype).value;
  return results;
}

}  // namespace

std::vector<Decomposition> normalization_decompositions() {
  return {
      {"aten.native_layer_norm", "normalization", layer_norm},
      {"aten.native_layer_norm_backward", "normalization", layer_norm_backward},
      {"aten.native_batch_norm", "normalization", batch_norm},
      {"aten._native_batch_norm_legit_functional", "normalization", batch_norm_functional},
      {"aten._native_batch_norm_legit_no_training", "normalization", batch_norm_no_training},
      {"aten.native_batch_norm_backward", "normalization", batch_norm_backward},
  };
}

}  // namespace diptych::detail
