// Views, copies in another order, and tensors made from numbers: everything that moves elements by rules of shape.
#include <ATen/ATen.h>
#include <cmath>
#include <limits>

#include "samples/families.h"

namespace diptych::test {
namespace shape_calls {
namespace {

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

at::Tensor numbers(at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return (at::arange(count) - count / 3).to(dtype).reshape(sizes);
}
at::Tensor with_nan(at::IntArrayRef sizes) {
  at::Tensor x = numbers(sizes);
  x.view(-1)[0] = kNan;
  x.view(-1)[1] = INFINITY;
  return x;
}

void views(Samples& out) {
  const at::Tensor x = numbers({2, 3, 4}), t = numbers({4, 3}).t(), scalar = at::randn({});
  for (const char* op : {"aten.view", "aten.view_copy", "aten.reshape", "aten._reshape_copy"})
    add(out, op, {x, Ints{-1, 6}});
  add(out, "aten.view", {scalar, Ints{1, 1}});
  add(out, "aten.view", {at::randn({0, 3}), Ints{3, 0, 2}});
  add(out, "aten._unsafe_view", {x, Ints{6, 4}});
  add(out, "aten._reshape_alias", {x, Ints{6, 4}, Ints{4, 1}});
  for (const char* op : {"aten.unsqueeze", "aten.unsqueeze_copy"}) {
    for (const int64_t dim : {0, 1, -1, -3}) add(out, op, {t, dim});
  }
  add(out, "aten.unsqueeze", {scalar, -1});
  const at::Tensor ones = numbers({1, 3, 1});
  add(out, "aten.squeeze", {ones});
  for (const int64_t dim : {0, 1, -1}) add(out, "aten.squeeze.dim", {ones, dim});
  add(out, "aten.squeeze.dim", {scalar, -1});
  add(out, "aten.squeeze.dims", {ones, Ints{0, -1, 1}});
  add(out, "aten.squeeze_copy.dims", {ones, Ints{0}});
  add(out, "aten.squeeze_copy", {ones});
  add(out, "aten.squeeze_copy.dim", {ones, -1});
  add(out, "aten._reshape_alias_copy", {x, Ints{6, 4}, Ints{4, 1}});
  for (const char* op : {"aten.permute", "aten.permute_copy"}) add(out, op, {x, Ints{-1, 0, 1}});
  add(out, "aten.permute", {scalar, Ints{}});
  for (const char* op : {"aten.transpose.int", "aten.transpose_copy.int"}) add(out, op, {x, -1, 0});
  add(out, "aten.transpose.int", {scalar, 0, -1});
  for (const char* op : {"aten.t", "aten.t_copy"}) add(out, op, {t});
  add(out, "aten.t", {at::randn({3})});
  add(out, "aten.expand", {numbers({3, 1}), Ints{2, -1, 4}});
  add(out, "aten.expand", {scalar, Ints{2, 3}});
  add(out, "aten.expand", {numbers({1, 3}), Ints{0, 3}});
  add(out, "aten.expand_copy", {numbers({3, 1}), Ints{-1, 2}});
  for (const char* op :
       {"aten.alias_copy", "aten.detach_copy", "aten.lift", "aten.lift_fresh", "aten.alias", "aten.detach"}) {
    add(out, op, {t});
  }
}

void views_as_another_dtype(Samples& out) {
  const at::Tensor x = with_nan({2, 4});
  for (const auto dtype : {at::kInt, at::kShort, at::kByte, at::kDouble, at::kLong, at::kBFloat16}) {
    add(out, "aten.view.dtype", {x, dtype});
  }
  add(out, "aten.view.dtype", {numbers({3}, at::kHalf), at::kShort});
  add(out, "aten.view_copy.dtype", {at::scalar_tensor(1.5), at::kInt});
  add(out, "aten.view.dtype", {numbers({4}, at::kByte), at::kBool});
  add(out, "aten.view.dtype", {numbers({4}), at::kComplexFloat});
}

void parts(Samples& out) {
  const at::Tensor x = numbers({5, 4}), t = numbers({4, 5}).t();
  add(out, "aten.slice.Tensor", {t});
  add(out, "aten.slice.Tensor", {x, 0, 1, kEnd, 2});
  add(out, "aten.slice.Tensor", {t, -1, -3, -1});
  add(out, "aten.slice.Tensor", {x, 0, 4, 2});
  add(out, "aten.slice.Tensor", {x, 1, -100, 100, 3});
  add(out, "aten.slice_copy.Tensor", {x, 0, c10::IValue(), 3});
  add(out, "aten.slice.Tensor", {at::randn({0, 3}), 0, 0, 2});
  for (const char* op : {"aten.select.int", "aten.select_copy.int"}) {
    add(out, op, {x, 0, -1});
    add(out, op, {t, -1, 2});
  }
  add(out, "aten.select.int", {at::randn({3}), 0, 1});
  add(out, "aten.narrow_copy", {x, -1, 1, 2});
  add(out, "aten.narrow_copy", {x, 0, -2, 2});
  for (const char* op : {"aten.split.Tensor", "aten.split_copy.Tensor"}) add(out, op, {x, 2, -2});
  for (const char* op : {"aten.split_with_sizes", "aten.split_with_sizes_copy"}) {
    add(out, op, {t, Ints{1, 0, 3}, -1});
  }
  add(out, "aten.split.Tensor", {at::randn({0, 3}), 2, 0});
  for (const char* op : {"aten.unbind.int", "aten.unbind_copy.int"}) add(out, op, {t, -1});
}

void joins(Samples& out) {
  const at::Tensor x = numbers({2, 3}), empty = at::empty({0});
  add(out, "aten.cat", {Tensors{x, x.t().contiguous().t(), numbers({1, 3})}, 0});
  add(out, "aten.cat", {Tensors{x, numbers({2, 2}, at::kLong)}, -1});
  add(out, "aten.cat", {Tensors{numbers({2}, at::kHalf), numbers({3}, at::kBFloat16), numbers({1}, at::kBool)}});
  add(out, "aten.cat", {Tensors{numbers({2}, at::kByte), numbers({3}, at::kChar)}});
  add(out, "aten.cat", {Tensors{numbers({2}), numbers({2}, at::kComplexFloat)}});
  add(out, "aten.cat", {Tensors{empty, x, empty}, 1});
  add(out, "aten.cat", {Tensors{empty, numbers({3}), at::empty({0}, at::kDouble)}});
  add(out, "aten.cat", {Tensors{empty, empty}});
  add(out, "aten.cat", {Tensors{at::empty({2, 0}), x}, 1});
  add(out, "aten.cat", {Tensors{x}, 1});
  for (const char* op : {"aten.stack", "aten._stack"}) {
    for (const int64_t dim : {0, 1, -1}) add(out, op, {Tensors{x, x.mul(2)}, dim});
  }
  add(out, "aten.stack", {Tensors{at::randn({}), at::randn({})}, -1});
  add(out, "aten.stack", {Tensors{at::randn({0}), at::randn({0})}});
  add(out, "aten.stack", {Tensors{x, numbers({2, 3}, at::kInt)}});
}

void constants(Samples& out) {
  const at::Tensor x = numbers({2, 3}).t();
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kByte, at::kBool,
                           at::kComplexFloat}) {
    add(out, "aten.full", {Ints{2}, 3, dtype});
    add(out, "aten.full_like", {x, -2, dtype});
  }
  for (const double number : {kNan, -double{INFINITY}, -0.0, 1e-45, 1e300}) {
    add(out, "aten.full", {Ints{2, 0}, number, at::kDouble});
    add(out, "aten.full", {Ints{}, number, at::kDouble});
  }
  add(out, "aten.full", {Ints{2}, kNan, at::kHalf});
  add(out, "aten.full", {Ints{2}, c10::IValue(c10::complex<double>(1, -2))});
  add(out, "aten.full", {Ints{2}, true});
  add(out, "aten.full_like", {x, 1.5});
  add(out, "aten.new_full", {x, Ints{2, 2}, 7, at::kInt});
  for (const char* op : {"aten.zeros", "aten.ones"}) add(out, op, {Ints{2, 3}, at::kLong});
  for (const char* op : {"aten.zeros_like", "aten.ones_like"}) add(out, op, {x, at::kBFloat16});
  for (const char* op : {"aten.new_zeros", "aten.new_ones"}) add(out, op, {x, Ints{4}, at::kBool});
  add(out, "aten.zero", {x});
  add(out, "aten.scalar_tensor", {2.5, at::kHalf});
}

void ranges(Samples& out) {
  for (const auto dtype :
       {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kLong, at::kInt, at::kShort, at::kByte}) {
    add(out, "aten.arange", {5, dtype});
    add(out, "aten.arange.start_step", {1, 12, 3, dtype});
  }
  add(out, "aten.arange", {300, at::kBFloat16});
  add(out, "aten.arange", {5});
  add(out, "aten.arange", {0});
  add(out, "aten.arange", {2.5});
  add(out, "aten.arange.start", {-2, 3});
  add(out, "aten.arange.start", {-2.5, 3, at::kLong});
  add(out, "aten.arange.start_step", {5, -5, -3});
  add(out, "aten.arange.start_step", {0.1, 2, 0.3});
  add(out, "aten.arange.start_step", {-1, 1, 0.1, at::kDouble});
  for (const int64_t steps : {0, 1, 2, 101}) add(out, "aten.linspace", {-1.5, 3, steps});
  add(out, "aten.linspace", {3, -7, 10, at::kDouble});
  add(out, "aten.linspace", {0, 10, 4, at::kLong});
  for (const auto dtype : {at::kFloat, at::kBool, at::kHalf, at::kLong, at::kComplexFloat})
    add(out, "aten.eye", {3, dtype});
  add(out, "aten.eye.m", {2, 4});
  add(out, "aten.eye", {0});
  for (const char* op : {"aten.tril_indices", "aten.triu_indices"}) {
    for (const int64_t offset : {0, 1, -2, 7}) add(out, op, {3, 4, offset});
  }
  add(out, "aten.tril_indices", {3, 3, 0, at::kInt});
  add(out, "aten.tril_indices", {100, 100});
}

void other_orders(Samples& out) {
  const at::Tensor x = with_nan({3, 4}), scalar = at::randn({});
  add(out, "aten.flip", {x, Ints{-1}});
  add(out, "aten.flip", {x.t(), Ints{0, 1}});
  add(out, "aten.flip", {x, Ints{}});
  add(out, "aten.flip", {scalar, Ints{}});
  add(out, "aten.flip", {at::randn({0, 2}), Ints{0}});
  add(out, "aten.roll", {x, Ints{5}});
  add(out, "aten.roll", {x.t(), Ints{1, -2}, Ints{0, -1}});
  add(out, "aten.roll", {x, Ints{3, 1}, Ints{0, 0}});
  add(out, "aten.roll", {at::randn({0, 2}), Ints{1}, Ints{0}});
  for (const int64_t turns : {0, 1, 2, 3, -1, 5}) add(out, "aten.rot90", {x, turns, Ints{0, -1}});
  add(out, "aten.rot90", {numbers({2, 3, 2}), 1, Ints{2, 1}});
  add(out, "aten.repeat", {x.t(), Ints{2, 1, 3}});
  add(out, "aten.repeat", {x, Ints{0, 2}});
  add(out, "aten.repeat", {scalar, Ints{2, 2}});
  add(out, "aten.repeat", {scalar, Ints{}});
  add(out, "aten.pixel_shuffle", {numbers({2, 8, 2, 3}), 2});
  add(out, "aten.pixel_shuffle", {numbers({9, 2, 1}), 3});
  add(out, "aten.pixel_unshuffle", {numbers({2, 2, 4, 6}), 2});
  add(out, "aten.pixel_unshuffle", {at::randn({0, 2, 4, 6}), 2});
  add(out, "aten.channel_shuffle", {numbers({2, 6, 2, 2}), 3});
  for (const char* op : {"aten.tril", "aten.triu"}) {
    for (const int64_t diagonal : {0, 1, -1, 9}) add(out, op, {x, diagonal});
    add(out, op, {numbers({2, 3, 3}, at::kLong)});
    add(out, op, {at::ones({3, 2}, at::kBool).t()});
    add(out, op, {at::randn({0, 3})});
    add(out, op, {numbers({2, 2}, at::kComplexFloat)});
  }
}

void diagonals(Samples& out) {
  const at::Tensor x = with_nan({3, 4}), cube = numbers({2, 3, 4}).permute({2, 0, 1});
  for (const int64_t offset : {0, 1, -2, 4}) {
    add(out, "aten.diagonal", {x, offset});
    add(out, "aten.diag_embed", {numbers({2}), offset});
    const at::Tensor part = x.diagonal(offset);
    add(out, "aten.diagonal_scatter", {x, part.mul(10), offset});
    add(out, "aten.diagonal_backward", {part.contiguous(), Ints{3, 4}, offset, 0, 1});
  }
  add(out, "aten.diagonal_copy", {cube, 0, -1, 0});
  add(out, "aten.diagonal", {cube.to(at::kLong), -1, 0, 2});
  add(out, "aten.diagonal_scatter", {cube, at::randn({2, 3}), 0, 0, 2});
  add(out, "aten.diag_embed", {numbers({2, 3}).t(), 1, 0, -2});
  add(out, "aten.diag_embed", {numbers({2, 3}, at::kBool), 0, 2, 0});
  add(out, "aten.diag_embed", {at::randn({0})});
  add(out, "aten.block_diag", {Tensors{x, at::randn({}), numbers({2}, at::kLong), at::randn({0, 2}), x.t()}});
  add(out, "aten.block_diag", {Tensors{x}});
}

void strides(Samples& out) {
  const at::Tensor x = numbers({4, 3});
  add(out, "aten.as_strided", {x, Ints{2, 3}, Ints{6, 1}});
  add(out, "aten.as_strided", {x, Ints{3, 3}, Ints{1, 1}});
  add(out, "aten.as_strided_copy", {x, Ints{2, 5}, Ints{0, 2}});
  add(out, "aten.as_strided", {x, Ints{}, Ints{}});
  add(out, "aten.as_strided_scatter", {x, at::randn({2, 2}), Ints{2, 2}, Ints{6, 1}});
  add(out, "aten.as_strided", {x.t(), Ints{2}, Ints{1}});
  add(out, "aten.as_strided", {x, Ints{2}, Ints{1}, 3});
  add(out, "aten.as_strided", {numbers({10}).slice(0, 0, 4), Ints{8}, Ints{1}});
  for (const int64_t step : {1, 2, 3}) {
    add(out, "aten.unfold", {x, 0, 2, step});
    add(out, "aten.unfold_backward", {x.unfold(0, 2, step).contiguous(), Ints{4, 3}, 0, 2, step});
  }
  add(out, "aten.unfold_copy", {x.t(), -1, 3, 1});
  add(out, "aten.unfold", {at::randn({}), 0, 1, 1});
}

void columns_of_images(Samples& out) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const at::Tensor x = at::randn({2, 3, 5, 4}, dtype);
    const at::Tensor columns = at::im2col(x, {2, 3}, {2, 1}, {1, 0}, {1, 2});
    add(out, "aten.im2col", {x, Ints{2, 3}, Ints{2, 1}, Ints{1, 0}, Ints{1, 2}});
    add(out, "aten.col2im", {columns, Ints{5, 4}, Ints{2, 3}, Ints{2, 1}, Ints{1, 0}, Ints{1, 2}});
  }
  const at::Tensor image = at::randn({4, 4, 2}).permute({2, 0, 1});
  add(out, "aten.im2col", {image, Ints{2, 2}, Ints{1, 1}, Ints{0, 0}, Ints{2, 2}});
  add(out, "aten.col2im", {at::randn({8, 4}), Ints{4, 4}, Ints{2, 2}, Ints{1, 1}, Ints{0, 0}, Ints{2, 2}});
}

void padding(Samples& out) {
  const at::Tensor x = with_nan({2, 3, 4});
  add(out, "aten.constant_pad_nd", {x, Ints{1, 2}});
  add(out, "aten.constant_pad_nd", {x.permute({2, 0, 1}), Ints{1, -1, 0, 2, -1, 3}, 2.5});
  add(out, "aten.constant_pad_nd", {numbers({3}, at::kLong), Ints{-1, 2}, 7});
  add(out, "aten.constant_pad_nd", {at::ones({3}, at::kBool), Ints{1, 0}, true});
  add(out, "aten.constant_pad_nd", {at::randn({0, 2}), Ints{0, 0, 2, 1}, -INFINITY});
  add(out, "aten.constant_pad_nd", {at::randn({2}), Ints{}});
  for (const std::string kind : {"reflection", "replication"}) {
    for (const auto dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
      add(out, "aten." + kind + "_pad2d", {at::randn({1, 2, 3, 4}, dtype), Ints{2, 1, 1, 2}});
      add(out, "aten." + kind + "_pad2d_backward",
          {at::randn({1, 2, 6, 7}, dtype), at::randn({1, 2, 3, 4}, dtype), Ints{2, 1, 1, 2}});
    }
    add(out, "aten." + kind + "_pad1d", {at::randn({2, 5}), Ints{4, 0}});
    add(out, "aten." + kind + "_pad1d", {at::randn({2, 5}), Ints{-1, 2}});
    add(out, "aten." + kind + "_pad1d_backward", {at::randn({2, 6}), at::randn({2, 5}), Ints{-1, 2}});
    add(out, "aten." + kind + "_pad3d", {at::randn({1, 1, 2, 3, 4}), Ints{1, 1, 2, 0, 1, 1}});
    add(out, "aten." + kind + "_pad3d_backward",
        {at::randn({1, 1, 4, 5, 6}), at::randn({1, 1, 2, 3, 4}), Ints{1, 1, 2, 0, 1, 1}});
  }
}

void gradients_of_parts(Samples& out) {
  const at::Tensor g = with_nan({2, 3});
  add(out, "aten.select_backward", {g, Ints{2, 4, 3}, -2, -1});
  add(out, "aten.select_backward", {at::randn({}), Ints{3}, 0, 1});
  add(out, "aten.slice_backward", {g, Ints{2, 9}, 1, 1, 8, 3});
  out.back().is_fixed = true;  // a step that is taken for 1
  add(out, "aten.slice_backward", {g, Ints{2, 9}, -1, -3, kEnd, 1});
  add(out, "aten.slice_backward", {at::randn({0, 3}), Ints{2, 3}, 0, 2, 2, 1});
  const at::Tensor x = numbers({4, 6}), t = numbers({6, 4}).t();
  add(out, "aten.slice_scatter", {x, at::randn({2, 6}), 0, 1, 3});
  add(out, "aten.slice_scatter", {t, at::randn({4, 2}), -1, -4, kEnd, 2});
  out.back().is_fixed = true;  // a step that is taken for 1
  add(out, "aten.slice_scatter", {x, at::randn({0, 6}), 0, 3, 1});
  add(out, "aten.slice_scatter", {x, t});
  add(out, "aten.slice_scatter", {numbers({4}, at::kBool), at::zeros({2}, at::kBool), 0, 0, kEnd, 2});
  add(out, "aten.select_scatter", {t, at::randn({4}), -1, -2});
  add(out, "aten.select_scatter", {numbers({3}, at::kLong), at::scalar_tensor(9, at::kLong), 0, 1});
  add(out, "aten.select_scatter", {numbers({3}, at::kLong), at::scalar_tensor(9.5), 0, 1});
}

}  // namespace
}  // namespace shape_calls

Samples calls_shape() {
  using namespace shape_calls;
  Samples out;
  views(out);
  views_as_another_dtype(out);
  parts(out);
  joins(out);
  constants(out);
  ranges(out);
  other_orders(out);
  diagonals(out);
  strides(out);
  columns_of_images(out);
  padding(out);
  gradients_of_parts(out);
  return out;
}

}  // namespace diptych::test
