// Samples of operators that have C++ Meta kernels: matrix products, views, copies, softmax.
#include <torch/types.h>

#include "samples/families.h"

namespace diptych::test {
namespace {

void add_products(Samples& out) {
  for (const Layout& a : layouts(f32({4, 3}))) {
    for (const Layout& b : nonempty_layouts(f32({3, 5}))) {
      const std::string note = a.name + " by " + b.name;
      out.push_back(sample("aten.mm", {a.tensor, b.tensor}, note));
      out.push_back(sample("aten.addmm", {f32({5}), a.tensor, b.tensor}, note));
      out.push_back(sample("aten.addmm", {f32({a.tensor.size(0), 1}), a.tensor, b.tensor}, note + ", column"));
    }
  }
  for (const Layout& a : layouts(f32({2, 4, 3}))) {
    out.push_back(sample("aten.bmm", {a.tensor, f32({a.tensor.size(0), 3, 5})}, a.name));
    out.push_back(sample("aten.baddbmm", {f32({1, 1, 5}), a.tensor, f32({a.tensor.size(0), 3, 5})}, a.name));
  }
}

void add_views(Samples& out, const Layout& x) {
  out.push_back(sample("aten.transpose.int", {x.tensor, 0, 1}, x.name));
  out.push_back(sample("aten.permute", {x.tensor, ints({2, 0, 1})}, x.name));
  out.push_back(sample("aten.slice.Tensor", {x.tensor, 1, 0, 2, 1}, x.name));
  out.push_back(sample("aten.select.int", {x.tensor, 1, 1}, x.name));
  out.push_back(sample("aten.unsqueeze", {x.tensor, 1}, x.name));
  out.push_back(sample("aten.split.Tensor", {x.tensor, 2, 1}, x.name));
  out.push_back(sample("aten.expand", {x.tensor, ints({2, -1, -1, -1})}, x.name));
  out.push_back(sample("aten.as_strided", {x.tensor, ints({2}), ints({1})}, x.name));
  out.push_back(sample("aten.clone", {x.tensor}, x.name));
  out.push_back(sample("aten.clone", {x.tensor, at::MemoryFormat::Contiguous}, x.name));
  out.push_back(sample("aten._to_copy", {x.tensor, at::kDouble}, x.name));
  for (const auto& op : {"aten.zeros_like", "aten.ones_like"}) {
    out.push_back(sample(op, {x.tensor}, x.name));
    out.push_back(sample(op, {x.tensor, at::kDouble}, x.name + " to f64"));
  }
  out.push_back(
      sample("aten._to_copy", {x.tensor, kNone, kNone, kNone, kNone, false, at::MemoryFormat::Contiguous}, x.name));
  out.push_back(sample("aten.cat", {std::vector<at::Tensor>{x.tensor, x.tensor}, 1}, x.name));
  out.push_back(sample("aten.stack", {std::vector<at::Tensor>{x.tensor, x.tensor}, 1}, x.name));
  out.push_back(sample("aten._softmax", {x.tensor, -1, false}, x.name));
  out.push_back(sample("aten._log_softmax", {x.tensor, 1, false}, x.name));
  out.push_back(sample("aten._log_softmax_backward_data", {x.tensor, x.tensor, 1, at::kFloat}, x.name));
  out.push_back(sample("aten.masked_fill.Scalar", {x.tensor, x.tensor.gt(0), 1}, x.name));
  out.push_back(sample("aten.constant_pad_nd", {x.tensor, ints({1, 2}), 0}, x.name));
  out.push_back(sample("aten.mean.dim", {x.tensor, ints({1}), true}, x.name));
}

}  // namespace

Samples layouts_structured() {
  Samples out;
  add_products(out);
  for (const Layout& x : layouts(f32({4, 3, 5}))) {
    if (x.name != "empty") add_views(out, x);
  }
  out.push_back(sample("aten.view", {f32({4, 6}), ints({2, -1})}));
  out.push_back(sample("aten.t", {f32({4, 6})}));
  return out;
}

}  // namespace diptych::test
