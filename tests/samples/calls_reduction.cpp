// Reductions, scans, orders, norms and losses against eager.
#include <ATen/ATen.h>

#include "samples/families.h"

namespace diptych::test {
namespace reduction_calls {
namespace {

// Tensors, then constants.
void expect_reduced(Samples& out, const std::string& op, const std::vector<at::Tensor>& tensors,
                    const std::vector<c10::IValue>& constants = {}) {
  add(out, op, tensors, constants);
}

c10::IValue dims(std::vector<int64_t> list) { return list; }
c10::IValue none() { return {}; }
c10::IValue as(at::ScalarType dtype) { return static_cast<int64_t>(dtype); }

// Small terms with ties and zeros, negative ones where the dtype has them.
at::Tensor terms(at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat) {
  const bool is_unsigned = dtype == at::kByte || dtype == at::kBool;
  return at::randint(is_unsigned ? 0 : -4, 5, sizes).to(dtype);
}
// Rows of NaN, infinities and ties.
at::Tensor special(at::ScalarType dtype = at::kFloat) {
  return at::tensor({1.0,  3.0, 3.0,  -2.0,  kNan, 1.0, kNan, 2.0, -kInf, -kInf, -kInf, -kInf,
                     kInf, 1.0, kInf, -kInf, 0.0,  0.0, -1.0, 0.0, 2.0,   -kInf, kNan,  kInf})
      .reshape({6, 4})
      .to(dtype);
}
constexpr at::ScalarType kReal[] = {at::kFloat, at::kLong, at::kInt, at::kByte, at::kBool};
constexpr at::ScalarType kFloats[] = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf};

void sums_and_means(Samples& out) {
  for (const auto dtype : kReal) {
    const at::Tensor x = terms({3, 4, 2}, dtype);
    expect_reduced(out, "aten.sum", {x});
    expect_reduced(out, "aten.sum.dim_IntList", {x}, {dims({-1, 0}), true});
    expect_reduced(out, "aten.prod.dim_int", {x}, {-2, false, none()});
  }
  for (const auto dtype : {at::kFloat, at::kHalf, at::kBFloat16, at::kComplexFloat}) {
    expect_reduced(out, "aten.mean", {terms({5, 3}, dtype)});
    expect_reduced(out, "aten.mean.dim", {terms({5, 3}, dtype).t()}, {dims({-2}), true});
    expect_reduced(out, "aten.sum", {terms({5, 3}, dtype)});
  }
  const at::Tensor x = terms({4, 3});
  for (const auto& list : {none(), dims({}), dims({0, 1}), dims({1})}) {
    expect_reduced(out, "aten.sum.dim_IntList", {x}, {list, false, none()});
    expect_reduced(out, "aten.mean.dim", {x}, {list, true, none()});
  }
  expect_reduced(out, "aten.sum", {x}, {as(at::kLong)});
  expect_reduced(out, "aten.sum", {x}, {as(at::kBool)});
  expect_reduced(out, "aten.prod", {x.to(at::kLong)}, {as(at::kFloat)});
  expect_reduced(out, "aten.sum", {at::tensor({1e5F, -1e5F})}, {as(at::kHalf)});
  expect_reduced(out, "aten.mean", {x.to(at::kLong)}, {as(at::kDouble)});
  expect_reduced(out, "aten.mean", {at::full({70000}, 2.0, at::kHalf)});
  expect_reduced(out, "aten.sum", {at::full({1000000}, 0.1)});
  for (const char* op : {"aten.sum", "aten.mean", "aten.prod"}) {
    expect_reduced(out, op, {at::tensor(2.5)});
    expect_reduced(out, op, {at::zeros({0, 3})});
    expect_reduced(out, op, {special()});
  }
  expect_reduced(out, "aten.sum.dim_IntList", {at::tensor(2.5)}, {dims({-1}), true});
  expect_reduced(out, "aten.mean.dim", {at::zeros({0, 3})}, {dims({0})});
  expect_reduced(out, "aten.sum.dim_IntList", {at::zeros({0, 3})}, {dims({1})});
  expect_reduced(out, "aten.nansum", {special()}, {dims({1})});
  expect_reduced(out, "aten.nansum", {special(at::kHalf)});
  expect_reduced(out, "aten.nansum", {x.to(at::kInt)});
  expect_reduced(out, "aten.trace", {x});
  expect_reduced(out, "aten.trace", {x.to(at::kInt)});
}

void extrema(Samples& out) {
  for (const auto dtype : kReal) {
    const at::Tensor x = terms({3, 5}, dtype);
    expect_reduced(out, "aten.amax", {x}, {dims({1}), true});
    expect_reduced(out, "aten.min", {x});
    expect_reduced(out, "aten.max.dim", {x}, {-1, true});
    expect_reduced(out, "aten.min.dim", {x.t()}, {0});
    if (dtype == at::kBool) continue;
    expect_reduced(out, "aten.argmax", {x});
    expect_reduced(out, "aten.argmin", {x}, {-1, true});
  }
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const at::Tensor x = special(dtype);
    expect_reduced(out, "aten.amax", {x}, {dims({1})});
    expect_reduced(out, "aten.amin", {x}, {dims({-1})});
    expect_reduced(out, "aten.max.dim", {x}, {1});
    expect_reduced(out, "aten.min.dim", {x}, {1});
    expect_reduced(out, "aten.argmax", {x}, {1});
    expect_reduced(out, "aten.argmin", {x}, {1});
  }
  for (const char* op : {"aten.max", "aten.min", "aten.amax", "aten.amin", "aten.aminmax"}) {
    expect_reduced(out, op, {special()});
    expect_reduced(out, op, {terms({300, 7})});
    expect_reduced(out, op, {at::tensor(3.0)});
  }
  expect_reduced(out, "aten.aminmax", {special()}, {1, true});
  expect_reduced(out, "aten.amax", {at::zeros({0, 3})}, {dims({1})});
  expect_reduced(out, "aten.max.dim", {at::zeros({0, 3})}, {1});
  expect_reduced(out, "aten.argmax", {at::zeros({0, 3})}, {1});
  expect_reduced(out, "aten.max.dim", {at::tensor(3.0)}, {0});
  expect_reduced(out, "aten.argmax", {at::tensor(3.0)}, {-1});
  expect_reduced(out, "aten.argmax", {at::zeros({3, 1000})}, {none(), true});
  expect_reduced(out, "aten.argmin", {terms({40, 50}).t()});
  expect_reduced(out, "aten.argmax", {terms({40, 50}).t()}, {1});
}

void truth(Samples& out) {
  for (const auto dtype : {at::kFloat, at::kHalf, at::kLong, at::kByte, at::kBool, at::kComplexFloat}) {
    const at::Tensor x = at::eye(3, 4).to(dtype);
    expect_reduced(out, "aten.any.dim", {x}, {-1, true});
    expect_reduced(out, "aten.all.dim", {x.slice(1, 0, 2)}, {1});
    expect_reduced(out, "aten.any", {x});
    expect_reduced(out, "aten.all.dims", {x}, {none(), false});
    expect_reduced(out, "aten.any.dims", {x}, {dims({}), false});
    expect_reduced(out, "aten.any.dims", {x}, {dims({0, -1}), true});
    expect_reduced(out, "aten.count_nonzero.dim_IntList", {x}, {dims({0})});
  }
  expect_reduced(out, "aten.all", {special()});
  expect_reduced(out, "aten.any", {at::zeros({0})});
  expect_reduced(out, "aten.all", {at::zeros({0})});
  expect_reduced(out, "aten.any", {at::tensor(kNan)});
  expect_reduced(out, "aten.count_nonzero", {special()}, {-1});
  expect_reduced(out, "aten.count_nonzero", {special()});
}

void variances(Samples& out) {
  for (const auto dtype : {at::kFloat, at::kHalf}) {
    const at::Tensor x = at::randn({4, 6}).to(dtype);
    expect_reduced(out, "aten.var.correction", {x}, {dims({-1}), none(), true});
    expect_reduced(out, "aten.std_mean.correction", {x}, {dims({0}), 0, false});
    expect_reduced(out, "aten.var_mean.correction", {x.t()}, {none(), 1.5, true});
  }
  for (const int64_t correction : {0, 1, 3, 5}) {
    expect_reduced(out, "aten.var.correction", {at::tensor({1.0, 2.0, 4.0})}, {none(), correction, false});
    expect_reduced(out, "aten.std.correction", {at::tensor({1.0})}, {dims({}), correction, false});
  }
  for (const char* op : {"aten.var", "aten.std", "aten.var_mean", "aten.std_mean"}) {
    expect_reduced(out, op, {at::randn({3, 3})});
    expect_reduced(out, op, {at::randn({3, 3})}, {false});
    expect_reduced(out, std::string(op) + ".dim", {at::randn({3, 4})}, {dims({1}), false, true});
    // Where one element is infinite eager's mean may be NaN, by the order in which it takes elements.
    expect_reduced(out, std::string(op) + ".correction", {special().slice(0, 0, 2)}, {dims({1})});
    expect_reduced(out, std::string(op) + ".correction", {at::zeros({0, 3})}, {dims({0})});
    expect_reduced(out, std::string(op) + ".correction", {at::tensor(3.0)});
  }
  const at::Tensor equal = at::full({1000}, 0.1);
  expect_reduced(out, "aten.std.correction", {equal});
  expect_reduced(out, "aten.var_mean.correction", {at::randn({1000}) + 1e4});
}

void log_sum_exp_and_softmax(Samples& out) {
  for (const auto dtype : kFloats) {
    expect_reduced(out, "aten.logsumexp", {special(dtype)}, {dims({1}), true});
    expect_reduced(out, "aten._softmax", {special(dtype)}, {-1, false});
    expect_reduced(out, "aten._log_softmax", {special(dtype)}, {1, false});
    expect_reduced(out, "aten._safe_softmax", {special(dtype)}, {-1, none()});
    const at::Tensor y = at::randn({3, 5}).softmax(1).to(dtype), g = at::randn({3, 5}).to(dtype);
    expect_reduced(out, "aten._softmax_backward_data", {g, y}, {-1, as(dtype)});
    expect_reduced(out, "aten._log_softmax_backward_data", {g, y.log()}, {1, as(dtype)});
  }
  expect_reduced(out, "aten.logsumexp", {at::randn({3, 4, 2}) * 100}, {dims({0, -1})});
  expect_reduced(out, "aten.logsumexp", {terms({3}, at::kLong)}, {dims({0})});
  expect_reduced(out, "aten.logsumexp", {at::tensor(2.0)}, {dims({0})});
  expect_reduced(out, "aten.logsumexp", {at::zeros({0, 3})}, {dims({0})});
  for (const char* op : {"aten._softmax", "aten._log_softmax"}) {
    expect_reduced(out, op, {at::tensor(2.0)}, {0, false});
    expect_reduced(out, op, {at::randn({3, 4, 2}).permute({2, 0, 1})}, {1, false});
    expect_reduced(out, op, {at::zeros({0, 3})}, {1, false});
  }
  expect_reduced(out, "aten._safe_softmax", {at::tensor(-kInf)}, {0, none()});
  expect_reduced(out, "aten._safe_softmax", {special(at::kHalf)}, {1, as(at::kFloat)});
}

void scans(Samples& out) {
  for (const auto dtype : {at::kFloat, at::kLong, at::kBool}) {
    const at::Tensor x = terms({3, 7}, dtype);
    expect_reduced(out, "aten.cumsum", {x}, {-1});
    expect_reduced(out, "aten.cumprod", {x.t()}, {1});
    expect_reduced(out, "aten.cummax", {x}, {1});
    expect_reduced(out, "aten.cummin", {x}, {0});
  }
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    expect_reduced(out, "aten.cummax", {special(dtype)}, {1});
    expect_reduced(out, "aten.cummin", {special(dtype)}, {0});
    expect_reduced(out, "aten.cumsum", {special(dtype)}, {1});
    expect_reduced(out, "aten.cumprod", {special(dtype)}, {0});
    expect_reduced(out, "aten.logcumsumexp", {special(dtype)}, {1});
    expect_reduced(out, "aten.logcumsumexp", {at::randn({9}).to(dtype) * 5}, {0});
  }
  expect_reduced(out, "aten.cumsum", {at::tensor({1e5F, -1e5F})}, {0, as(at::kHalf)});
  expect_reduced(out, "aten.cumsum", {at::randn({1000})}, {0});
  expect_reduced(out, "aten.cumsum", {terms({4}).to(at::kComplexFloat)}, {0});
  expect_reduced(out, "aten.cumprod", {at::tensor({1e-30F, 1e-30F, 1e30F, 1e30F})}, {0});
  for (const char* op : {"aten.cumsum", "aten.cumprod", "aten.cummax", "aten.cummin", "aten.logcumsumexp"}) {
    expect_reduced(out, op, {at::tensor(2.0)}, {-1});
    expect_reduced(out, op, {at::zeros({0, 3})}, {1});
    expect_reduced(out, op, {at::zeros({0, 3})}, {0});
    expect_reduced(out, op, {at::tensor({-kInf, -kInf, 1.0, kInf, kNan, 2.0})}, {0});
  }
}

void sorting(Samples& out) {
  for (const auto dtype : kReal) {
    const at::Tensor x = terms({4, 9}, dtype);
    for (const bool is_descending : {false, true}) {
      expect_reduced(out, "aten.sort.stable", {x}, {true, -1, is_descending});
      expect_reduced(out, "aten.argsort.stable", {x.t()}, {true, 1, is_descending});
    }
  }
  for (const auto dtype : kFloats) {
    expect_reduced(out, "aten.sort.stable", {special(dtype)}, {true, 1, false});
    expect_reduced(out, "aten.sort.stable", {special(dtype)}, {true, 1, true});
    expect_reduced(out, "aten.median", {special(dtype).slice(0, 2)});
    expect_reduced(out, "aten.median", {terms({4, 6}, dtype)});
  }
  add(out, "aten.topk", {at::randn({3, 4}), 2, -1, true, false});
  expect_reduced(out, "aten.median", {terms({7}, at::kLong)});
  expect_reduced(out, "aten.median", {at::tensor(2.0)});
  expect_reduced(out, "aten.sort.stable", {at::tensor(2.0)}, {true, -1, false});
  expect_reduced(out, "aten.sort.stable", {at::zeros({0, 3})}, {true, 0, false});
}

// In rows of up to sixteen eager's sort is stable, which the position of a mode depends on.
void modes(Samples& out) {
  for (const auto dtype : kReal) {
    expect_reduced(out, "aten.mode", {terms({5, 9}, dtype)}, {1, false});
    expect_reduced(out, "aten.mode", {terms({7, 3}, dtype)}, {0, true});
  }
  // Among NaN eager's order is none.
  for (const auto dtype : kFloats) {
    expect_reduced(out, "aten.mode", {special(dtype).slice(0, 2, 5)}, {1, false});
    expect_reduced(out, "aten.mode", {at::randn({3, 7}).to(dtype)}, {0, true});
  }
  expect_reduced(out, "aten.mode", {at::tensor(2.0)}, {0, false});
  add(out, "aten.mode", {at::randn({3, 17})});
}

// Eager leaves the order of equal elements open: these differ from each other.
void unstable_sorts(Samples& out) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kChar}) {
    const at::Tensor x = at::randperm(60).sub(30).to(dtype).reshape({3, 20});
    for (const bool is_descending : {false, true}) {
      expect_reduced(out, "aten.sort", {x}, {-1, is_descending});
      expect_reduced(out, "aten.sort.stable", {x.t()}, {false, -1, is_descending});
      expect_reduced(out, "aten.argsort", {x}, {0, is_descending});
      if (!at::isFloatingType(dtype)) continue;
      expect_reduced(out, "aten.topk", {x}, {7, 1, is_descending, true});
      expect_reduced(out, "aten.topk", {x}, {3, 0, is_descending, true});
    }
    if (!at::isFloatingType(dtype)) continue;
    expect_reduced(out, "aten.kthvalue", {x}, {7, -1});
    expect_reduced(out, "aten.kthvalue", {x}, {1, 0, true});
  }
  add(out, "aten.kthvalue", {terms({3, 9}, at::kLong), 2});
  add(out, "aten.topk", {terms({3, 9}, at::kLong), 2});
  at::Tensor x = at::randn({4, 30});
  x[1][4] = kNan, x[0][9] = -kNan, x[2][7] = kInf, x[3][0] = -kInf;
  for (const bool is_descending : {false, true}) {
    expect_reduced(out, "aten.sort", {x}, {1, is_descending});
    expect_reduced(out, "aten.topk", {x}, {5, 1, is_descending, true});
  }
  expect_reduced(out, "aten.kthvalue", {x}, {30, 1});
  expect_reduced(out, "aten.kthvalue", {at::tensor(2.0)}, {1, 0});
  expect_reduced(out, "aten.topk", {at::tensor(2.0)}, {1, 0});
  expect_reduced(out, "aten.sort", {at::zeros({0, 3})}, {1, false});
}

void medians(Samples& out) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kByte}) {
    const at::Tensor x = at::randperm(24).to(dtype).reshape({4, 6});
    for (const char* const op : {"aten.median", "aten.nanmedian"}) {
      expect_reduced(out, op, {x});
      if (!at::isFloatingType(dtype)) continue;
      expect_reduced(out, std::string(op) + ".dim", {x}, {1, false});
      expect_reduced(out, std::string(op) + ".dim", {x.slice(0, 0, 3)}, {0, true});
    }
  }
  at::Tensor x = at::randn({4, 7});
  x[1][4] = kNan, x[1][2] = kNan, x[2].slice(0, 0, 6).fill_(kNan), x[3][0] = kInf;
  for (const char* const op : {"aten.median", "aten.nanmedian"}) {
    expect_reduced(out, op, {x});
    expect_reduced(out, op, {at::full({3}, kNan)});
    expect_reduced(out, std::string(op) + ".dim", {x}, {1, false});
    expect_reduced(out, std::string(op) + ".dim", {at::tensor(kNan)}, {0, false});
  }
}

void search(Samples& out) {
  const at::Tensor sorted = at::tensor({-1.0, 0.0, 0.0, 2.0, 5.0, 5.0, 9.0});
  const at::Tensor x = at::tensor({-2.0, 0.0, 1.0, 5.0, 9.0, kInf, -kInf, kNan, 10.0, -1.0}).reshape({2, 5});
  for (const bool is_right : {false, true}) {
    expect_reduced(out, "aten.bucketize.Tensor", {x, sorted}, {false, is_right});
    expect_reduced(out, "aten.searchsorted.Tensor", {sorted, x}, {true, is_right});
    expect_reduced(out, "aten.bucketize.Tensor", {x.slice(1, 0, 5, 2), sorted.slice(0, 0, 1)}, {true, is_right});
    expect_reduced(out, "aten.bucketize.Tensor", {x, sorted.slice(0, 0, 0)}, {false, is_right});
    expect_reduced(out, "aten.bucketize.Tensor", {x, at::tensor({1.0, kNan, 0.0, kNan})}, {false, is_right});
    expect_reduced(out, "aten.bucketize.Tensor", {terms({6}, at::kLong), sorted.to(at::kLong)}, {false, is_right});
  }
  expect_reduced(out, "aten.bucketize.Tensor", {at::tensor(1.0), sorted});
  expect_reduced(out, "aten.searchsorted.Tensor", {sorted, x}, {false, false, "right"});
}

void norms(Samples& out) {
  for (const double order : {0.0, 0.5, 1.0, 2.0, 3.0, -1.0, kInf, -kInf}) {
    expect_reduced(out, "aten.linalg_vector_norm", {special()}, {order, dims({1})});
    expect_reduced(out, "aten.norm.Scalar", {at::randn({3, 4})}, {order});
    expect_reduced(out, "aten.dist", {at::randn({3, 4}), at::randn({4})}, {order});
  }
  for (const auto dtype : {at::kDouble, at::kHalf, at::kBFloat16, at::kComplexFloat}) {
    const at::Tensor x = at::randn({3, 4}).to(dtype);
    expect_reduced(out, "aten.linalg_vector_norm", {x});
    expect_reduced(out, "aten.norm.ScalarOpt_dim", {x}, {none(), dims({0}), true});
    if (dtype == at::kComplexFloat) continue;
    expect_reduced(out, "aten.renorm", {x}, {2, 0, 1.0});
    expect_reduced(out, "aten.linalg_vector_norm", {x}, {2, dims({}), false, as(at::kDouble)});
    expect_reduced(out, "aten.norm.ScalarOpt_dim_dtype", {x}, {2, dims({1}), false, as(at::kDouble)});
    expect_reduced(out, "aten.norm.ScalarOpt_dtype", {x}, {3, as(at::kDouble)});
  }
  expect_reduced(out, "aten.linalg_vector_norm", {at::tensor(-2.0)});
  expect_reduced(out, "aten.linalg_vector_norm", {at::zeros({0, 3})}, {2, dims({0})});
  expect_reduced(out, "aten.linalg_vector_norm", {at::full({9}, 1e25)});
  expect_reduced(out, "aten.renorm", {at::randn({3, 4, 2})}, {1, -2, 2.0});
  expect_reduced(out, "aten._weight_norm_interface", {at::randn({3, 4, 2}), at::rand({3, 1, 1})}, {0});
  expect_reduced(out, "aten._weight_norm_interface", {at::randn({3, 4}), at::rand({1, 4})}, {1});
}

void normalizations(Samples& out) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const at::Tensor x = at::randn({2, 6, 3}).to(dtype), w = at::rand({6}).to(dtype), b = at::randn({6}).to(dtype);
    const at::Tensor g = at::randn({2, 6, 3}).to(dtype);
    const c10::IValue first(c10::List<bool>({true, false, false}));
    expect_reduced(out, "aten.native_group_norm", {x, w, b}, {2, 6, 3, 2, 1e-5});
    const auto [y, mean, rstd] = at::native_group_norm(x, w, b, 2, 6, 3, 2, 1e-5);
    const c10::IValue all(c10::List<bool>({true, true, true}));
    expect_reduced(out, "aten.native_group_norm_backward", {g, x, mean, rstd, w}, {2, 6, 3, 2, all});
    if (dtype != at::kFloat) continue;
    expect_reduced(out, "aten.native_group_norm", {x, {}, {}}, {2, 6, 3, 3, 1e-2});
    const at::Tensor image = at::randn({2, 6, 3, 2}).contiguous(at::MemoryFormat::ChannelsLast);
    expect_reduced(out, "aten.native_group_norm", {image, w, b}, {2, 6, 6, 2, 1e-5});
    add(out, "aten.native_layer_norm", {x.slice(2, 0, 2), dims({2}), at::Tensor(), at::Tensor(), 1e-5});
    const auto [z, m, r] = at::native_layer_norm(x, {3}, {}, {}, 1e-5);
    add(out, "aten.native_layer_norm_backward", {g, x, dims({3}), m, r, at::Tensor(), at::Tensor(), first});
  }
}

void losses(Samples& out) {
  for (const int64_t reduction : {0, 1, 2}) {
    const at::Tensor x = at::randn({4, 3}), t = at::rand({4, 3}), w = at::rand({3});
    expect_reduced(out, "aten.binary_cross_entropy_with_logits", {x, t, {}, {}}, {reduction});
    expect_reduced(out, "aten.binary_cross_entropy_with_logits", {x * 100, t, at::rand({4, 1}), w}, {reduction});
    expect_reduced(out, "aten.mse_loss", {x, t}, {reduction});
    expect_reduced(out, "aten.huber_loss", {x, t}, {reduction, 0.5});
    const at::Tensor classes = at::tensor({0, 2, 1, 2}, at::kLong);
    for (const int64_t ignored : {-100, 2}) {
      for (const at::Tensor& weight : {at::Tensor(), w}) {
        const at::Tensor total = at::tensor(2.5F), g = reduction == 0 ? at::randn({4}) : at::randn({});
        expect_reduced(out, "aten.nll_loss_forward", {x, classes, weight}, {reduction, ignored});
        expect_reduced(out, "aten.nll_loss_forward", {x.select(0, 0), classes.select(0, 1), weight},
                       {reduction, ignored});
        add(out, "aten.nll_loss_backward", {g, x, classes, weight, reduction, ignored, total});
        const at::Tensor image = at::randn({2, 3, 4, 2}), labels = at::randint(0, 3, {2, 4, 2}, at::kLong);
        const at::Tensor h = reduction == 0 ? at::randn({2, 4, 2}) : at::randn({});
        expect_reduced(out, "aten.nll_loss2d_forward", {image, labels, weight}, {reduction, ignored});
        add(out, "aten.nll_loss2d_backward", {h, image, labels, weight, reduction, ignored, total});
      }
    }
    const at::Tensor ignored = at::full({2}, 1, at::kLong), zero = at::zeros({}), one = at::ones({});
    expect_reduced(out, "aten.nll_loss_forward", {x.slice(0, 0, 2), ignored, {}}, {reduction, 1});
    expect_reduced(out, "aten.nll_loss_forward", {x.slice(0, 0, 2).to(at::kHalf), ignored, {}}, {reduction, 0});
    expect_reduced(out, "aten.nll_loss_forward", {at::zeros({0, 3}), at::zeros({0}, at::kLong), {}}, {reduction, -100});
    if (reduction == 0) continue;
    add(out, "aten.nll_loss_backward", {one, x.slice(0, 0, 2), ignored, at::Tensor(), reduction, 1, zero});
    add(out, "aten.nll_loss_backward", {one, x.slice(0, 0, 2), ignored, at::zeros({3}), reduction, -100, zero});
    add(out, "aten.nll_loss_backward", {one, x[0], ignored[0], w, reduction, -100, w[1]});
  }
}

void margin_losses(Samples& out) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    const at::Tensor x = at::randn({4, 5}).to(dtype), w = at::rand({5}).to(dtype), g = at::randn({4}).to(dtype);
    const at::Tensor signs = at::randint(0, 2, {4, 5}).mul(2).sub(1).to(dtype), total = at::tensor(0.7).to(dtype);
    const at::Tensor own = at::tensor({0, 4, 2, 2}, at::kLong);
    const at::Tensor several =
        at::tensor({0, 2, -1, 4, 1, -1, 0, 0, 0, 0, 3, 3, 1, -1, 2, 4, 3, 2, 1, 0}, at::kLong).reshape({4, 5});
    for (const int64_t reduction : {0, 1, 2}) {
      const at::Tensor gradient = reduction == 0 ? g : total;
      expect_reduced(out, "aten.soft_margin_loss", {x * 9, signs}, {reduction});
      expect_reduced(out, "aten.soft_margin_loss_backward", {reduction == 0 ? x + 1 : total, x, signs}, {reduction});
      for (const int64_t p : {1, 2}) {
        add(out, "aten.multi_margin_loss", {x, own, p, 0.6, w, reduction});
        add(out, "aten.multi_margin_loss", {x[1], own[1], p, 1, at::Tensor(), reduction});
        add(out, "aten.multi_margin_loss_backward", {gradient, x, own, p, 0.6, w, reduction});
        add(out, "aten.multi_margin_loss_backward", {total, x[1], own[1], p, 1, at::Tensor(), reduction});
      }
      const auto [loss, is_target] = at::multilabel_margin_loss_forward(x, several, reduction);
      add(out, "aten.multilabel_margin_loss_forward", {x, several, reduction});
      add(out, "aten.multilabel_margin_loss_forward", {x[0], several[0], reduction});
      add(out, "aten.multilabel_margin_loss_backward", {gradient, x, several, reduction, is_target});
      add(out, "aten.multilabel_margin_loss_backward", {total, x[2], several[2], reduction, is_target[2]});
    }
  }
}

void distances(Samples& out) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    at::Tensor x = at::randn({3, 5, 4}).to(dtype), y = at::randn({3, 6, 4}).to(dtype);
    y[0][1] = x[0][2], y[1][3][2] = x[1][0][2], x[2][4] = x[2][0];
    for (const double p : {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, kInf}) {
      const at::Tensor d = at::cdist(x, y, p, 2), g = at::randn({3, 5, 6}).to(dtype);
      expect_reduced(out, "aten._cdist_forward", {x, y}, {p, 2});
      expect_reduced(out, "aten._cdist_forward", {x[0].unsqueeze(0), y}, {p, none()});
      add(out, "aten._cdist_backward", {g, x, y, p, d});
      const at::Tensor rows = x[2].contiguous(), pairs = at::pdist(rows, p);
      expect_reduced(out, "aten._pdist_forward", {rows}, {p});
      add(out, "aten._pdist_backward", {at::randn({10}).to(dtype), rows, p, pairs});
    }
    expect_reduced(out, "aten._cdist_forward", {at::zeros({2, 0}).to(dtype), at::zeros({3, 0}).to(dtype)}, {2.0, 2});
  }
}

}  // namespace
}  // namespace reduction_calls

Samples calls_reduction() {
  using namespace reduction_calls;
  Samples out;
  sums_and_means(out);
  extrema(out);
  truth(out);
  variances(out);
  log_sum_exp_and_softmax(out);
  scans(out);
  sorting(out);
  modes(out);
  unstable_sorts(out);
  medians(out);
  search(out);
  norms(out);
  normalizations(out);
  losses(out);
  margin_losses(out);
  distances(out);
  return out;
}

}  // namespace diptych::test
