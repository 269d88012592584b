// Samples of reductions, scans and indexing.
#include <torch/types.h>

#include "samples/families.h"

namespace diptych::test {
namespace {

void add_full_reductions(Samples& out, const Layout& x) {
  for (const auto& op : {"aten.prod", "aten.nansum", "aten.sum"}) out.push_back(sample(op, {x.tensor}, x.name));
  if (x.name != "empty") {
    for (const auto& op : {"aten.max", "aten.min", "aten._aminmax", "aten.median"}) {
      out.push_back(sample(op, {x.tensor}, x.name));
    }
    out.push_back(sample("aten.nanmedian", {x.tensor}, x.name));
  }
}

void add_moments(Samples& out, const Layout& x) {
  const std::vector<std::string> ops = {"aten.var.correction", "aten.std.correction", "aten.var_mean.correction",
                                        "aten.std_mean.correction"};
  out.push_back(sample("aten.mean", {x.tensor}, x.name));
  for (const auto& op : ops) {
    out.push_back(sample(op, {x.tensor}, x.name));
    for (const bool keepdim : {false, true}) {
      out.push_back(sample(op, {x.tensor, ints({-1}), 1, keepdim}, x.name));
      out.push_back(sample(op, {x.tensor, ints({0, 2}), 0, keepdim}, x.name));
      out.push_back(sample(op, {x.tensor, ints({}), 0, keepdim}, x.name + ", no dims"));
    }
  }
}

void add_dim_reductions(Samples& out, const Layout& x) {
  for (const int64_t dim : {1, -1}) {
    for (const bool keepdim : {false, true}) {
      for (const auto& op : {"aten.median.dim", "aten.nanmedian.dim", "aten.mode", "aten._aminmax.dim", "aten.max.dim",
                             "aten.min.dim"}) {
        out.push_back(sample(op, {x.tensor, dim, keepdim}, x.name));
      }
      out.push_back(sample("aten.kthvalue", {x.tensor, 2, dim, keepdim}, x.name));
      out.push_back(sample("aten.nansum", {x.tensor, ints({dim}), keepdim}, x.name));
      for (const auto& op : {"aten.sum.dim_IntList", "aten.mean.dim", "aten.amax", "aten.amin"}) {
        out.push_back(sample(op, {x.tensor, ints({0, dim}), keepdim}, x.name));
        out.push_back(sample(op, {x.tensor, ints({}), keepdim}, x.name + ", all dimensions"));
      }
      out.push_back(sample("aten.argmax", {x.tensor, dim, keepdim}, x.name));
    }
    for (const auto& op :
         {"aten.cummax", "aten.cummin", "aten._logcumsumexp", "aten.logcumsumexp", "aten.cumsum", "aten.cumprod"}) {
      out.push_back(sample(op, {x.tensor, dim}, x.name));
    }
    out.push_back(sample("aten.count_nonzero.dim_IntList", {x.tensor, ints({dim})}, x.name));
    out.push_back(sample("aten.sort", {x.tensor, dim, false}, x.name));
    out.push_back(sample("aten.topk", {x.tensor, 2, dim}, x.name));
  }
}

void add_lookups(Samples& out, const Layout& x) {
  const at::Tensor bounds = torch::arange(4, at::kFloat);
  for (const bool narrow : {false, true}) {
    out.push_back(sample("aten.bucketize.Tensor", {x.tensor, bounds, narrow}, x.name));
    out.push_back(sample("aten.bucketize.Scalar", {1.5, bounds, narrow}));
    out.push_back(sample("aten.searchsorted.Tensor", {bounds, x.tensor, narrow}, x.name));
    out.push_back(sample("aten.searchsorted.Scalar", {bounds, 1.5, narrow}));
  }
}

}  // namespace

Samples layouts_reduction() {
  Samples out;
  for (const Layout& x : layouts(f32({4, 3, 5}))) {
    add_full_reductions(out, x);
    if (x.name == "empty") continue;
    add_moments(out, x);
    add_dim_reductions(out, x);
  }
  for (const Layout& x : layouts(f32({2, 3, 4, 5}))) {
    if (x.name == "empty") continue;
    add_moments(out, x);
    add_dim_reductions(out, x);
  }
  add_full_reductions(out, {i64({3, 4}, 9), "i64"});
  add_full_reductions(out, {i64({3, 4}, 2).to(at::kInt), "i32"});
  out.push_back(sample("aten.prod", {f32({3}), at::kDouble}, "to f64"));
  out.push_back(sample("aten.cummax", {f32({}), 0}, "0-d"));
  out.push_back(sample("aten.kthvalue", {f32({}), 1, 0}, "0-d"));
  out.push_back(sample("aten.dot", {f32({5}), f32({5})}));
  out.push_back(sample("aten.vdot", {f32({5}), f32({5})}));
  for (const Layout& x : layouts(f32({3, 4}))) out.push_back(sample("aten.trace", {x.tensor}, x.name));
  out.push_back(sample("aten.trace", {i64({3, 3}, 9).to(at::kInt)}, "i32"));
  out.push_back(sample("aten.histc", {f32({3, 4}), 10, -1, 1}));
  return out;
}

Samples layouts_indexing() {
  Samples out;
  const at::Tensor index = torch::tensor({2, 0, 1, 1}, at::kLong);
  for (const auto& shape : std::vector<std::vector<int64_t>>{{3, 4, 5}, {3, 3, 4, 5}}) {
    for (const Layout& x : nonempty_layouts(f32(shape))) {
      for (const int64_t dim : {0, 1, -1}) out.push_back(sample("aten.index_select", {x.tensor, dim, index}, x.name));
      out.push_back(sample("aten.index_select", {x.tensor, 1, index.slice(0, 0, 0)}, x.name + ", no index"));
      out.push_back(sample("aten.index_select", {x.tensor, 1, torch::tensor(1)}, x.name + ", 0-d index"));
      for (const at::Tensor& some : {index, index.slice(0, 0, 0)})
        out.push_back(sample("aten.index_add", {x.tensor, 1, some, x.tensor.index_select(1, some), 2}, x.name));
      out.push_back(sample("aten.take", {x.tensor, i64({2, 3}, 9)}, x.name));
      out.push_back(sample("aten.gather", {x.tensor, 0, torch::zeros_like(x.tensor, at::kLong)}, x.name));
      add_lookups(out, x);
    }
    for (const Layout& x : layouts(f32(shape))) {
      out.push_back(sample("aten.flip", {x.tensor, ints({0, -1})}, x.name));
      out.push_back(sample("aten.flip", {x.tensor, ints({})}, x.name + ", no dims"));
      out.push_back(sample("aten.roll", {x.tensor, ints({1}), ints({})}, x.name));
      out.push_back(sample("aten.roll", {x.tensor, ints({1, 2}), ints({0, 2})}, x.name));
      out.push_back(sample("aten.tril", {x.tensor}, x.name));
    }
  }
  out.push_back(sample("aten.index_select", {f32({}), 0, torch::zeros({1}, at::kLong)}, "0-d"));
  for (const Layout& x : nonempty_layouts(i64({2, 3}, 9)))
    out.push_back(sample("aten.take", {f32({9}), x.tensor}, x.name));
  out.push_back(sample("aten.unfold_backward", {f32({3, 4, 2}), ints({3, 9}), 1, 2, 2}));
  for (const int64_t offset : {-5, -1, 0, 2, 9}) {
    for (const auto& op : {"aten.tril_indices", "aten.triu_indices"}) out.push_back(sample(op, {4, 5, offset}));
  }
  out.push_back(sample("aten.tril_indices", {5, 2, 0, at::kInt}, "i32"));
  return out;
}

}  // namespace diptych::test
