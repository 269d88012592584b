// Elements and rows by position: reads, writes, sums of what is written to one place.
#include <ATen/ATen.h>
#include <cmath>
#include <limits>

#include "samples/families.h"

namespace diptych::test {
namespace indexing_calls {
namespace {

at::Tensor positions(at::IntArrayRef values) { return at::tensor(values, at::kLong); }
at::Tensor random_positions(at::IntArrayRef sizes, int64_t size) { return at::randint(size, sizes, at::kLong); }
const std::vector<at::ScalarType> kNumbers = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf,
                                              at::kLong,  at::kInt,    at::kByte,     at::kComplexFloat};
at::Tensor small_numbers(at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat) {
  return at::randint(1, 9, sizes, at::kLong).to(dtype);
}

void gathers(Samples& out) {
  const at::Tensor x = at::randn({4, 5}), t = at::randn({5, 4}).t(), none = at::zeros({0}, at::kLong);
  for (const at::Tensor& table : {x, t, small_numbers({4, 5}, at::kBool), small_numbers({4, 5}, at::kComplexFloat)}) {
    add(out, "aten.gather", {table, 0, random_positions({3, 5}, 4)});
    add(out, "aten.gather", {table, -1, random_positions({2, 7}, 5)});
    add(out, "aten.index_select", {table, -1, positions({4, 0, 4})});
  }
  add(out, "aten.gather", {x, 1, random_positions({5, 4}, 5).t()});
  add(out, "aten.gather", {at::randn({}), 0, at::zeros({}, at::kLong)});
  add(out, "aten.gather", {at::randn({3}), -1, positions({2, 2, 0, 1})});
  add(out, "aten.gather", {x, 0, at::zeros({0, 5}, at::kLong)});
  add(out, "aten.index_select", {x, 0, positions({1})[0]});
  add(out, "aten.index_select", {x, 0, none});
  add(out, "aten.index_select", {x, 0, positions({3, 1}).to(at::kInt)});
  add(out, "aten.index_select", {at::randn({}), 0, positions({0})});
  add(out, "aten.take", {t, positions({-1, 3, 19, -20}).reshape({2, 2})});
  add(out, "aten.take", {at::randn({}), at::zeros({}, at::kLong)});
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    add(out, "aten.embedding", {at::randn({6, 3}, dtype), random_positions({2, 4}, 6), 1});
  }
  add(out, "aten.embedding", {at::randn({6, 3}), positions({5})[0]});
  add(out, "aten.embedding", {at::randn({6, 3}), none});
}

void indexes_by_tensors(Samples& out) {
  const at::Tensor x = at::randn({4, 5, 3}), none, i = positions({-1, 0, 3}), j = positions({2, -5, 2});
  const at::Tensor column = positions({1, -2}).reshape({2, 1}), scalar = positions({1})[0];
  for (const char* op : {"aten.index.Tensor", "aten._unsafe_index.Tensor"}) {
    for (const Tensors& indices : {Tensors{i}, Tensors{none, j}, Tensors{i, j}, Tensors{i, none, j.remainder(3)},
                                   Tensors{column, i}, Tensors{none, i, column}, Tensors{none, scalar, none},
                                   Tensors{scalar, none, column}, Tensors{i, j, scalar}}) {
      add(out, op, {x, optional_tensors(indices)});
    }
  }
  add(out, "aten.index.Tensor", {x.permute({2, 0, 1}), optional_tensors({none, i.to(at::kInt)})});
  add(out, "aten.index.Tensor", {x, optional_tensors({at::zeros({0}, at::kLong)})});
  add(out, "aten.index.Tensor", {small_numbers({4}, at::kBool), optional_tensors({column})});
  add(out, "aten.index.Tensor", {x, optional_tensors({at::ones({4}, at::kBool)})});
}

void puts_by_tensors(Samples& out) {
  const at::Tensor none, i = positions({-1, 0, 2}), j = positions({2, -5, 1}),
                         column = positions({1, -2}).reshape({2, 1});
  for (const bool sums : {false, true}) {
    for (const auto dtype : kNumbers)
      add(out, "aten.index_put",
          {small_numbers({4, 5}, dtype), optional_tensors({i, j}), small_numbers({3}, dtype), sums});
    const at::Tensor x = at::randn({4, 5, 3});
    for (const Tensors& indices : {Tensors{i}, Tensors{none, j}, Tensors{i, none, positions({0, 1, 2})},
                                   Tensors{column, i}, Tensors{none, i.add(1), column}, Tensors{none, none, column}}) {
      const at::Tensor like = x.index(optional_tensors(indices).toOptionalTensorList());
      add(out, "aten.index_put", {x, optional_tensors(indices), at::randn(like.sizes()), sums});
      add(out, "aten._unsafe_index_put", {x, optional_tensors(indices), at::randn({}), sums});
      add(out, "aten.index_put", {x, optional_tensors(indices), at::randn({1, like.size(-1)}), sums});
    }
    add(out, "aten.index_put", {x.permute({2, 0, 1}), optional_tensors({positions({0})[0]}), at::randn({4, 5}), sums});
    add(out, "aten.index_put", {x, optional_tensors({at::zeros({0}, at::kLong)}), at::randn({0, 5, 3}), sums});
    add(out, "aten.index_put", {x, optional_tensors({at::randn({4, 5}).gt(0)}), at::scalar_tensor(NAN), sums});
    add(out, "aten.index_put", {x, optional_tensors({none, at::randn({5, 3}).gt(0)}), at::randn({1}), sums});
    add(out, "aten.index_put", {x, optional_tensors({none, none, at::zeros({3}, at::kBool)}), at::randn({}), sums});
  }
  for (const auto dtype : kNumbers) {
    add(out, "aten.index_put",
        {small_numbers({3, 2}, dtype), optional_tensors({positions({1, 1, -2, 0, 1})}), small_numbers({5, 2}, dtype),
         true});
  }
  add(out, "aten.index_put",
      {at::randn({2}), optional_tensors({positions({1, 0}).to(at::kByte)}), at::randn({}), true});
  add(out, "aten.index_put", {at::randn({3}), optional_tensors({at::ones({3}, at::kBool)}), at::randn({3}), false});
}

void scatters(Samples& out) {
  const at::Tensor unique = positions({2, 0, 3, 1, 3, 0}).reshape({3, 2}).t();
  for (const auto dtype : kNumbers) {
    const at::Tensor x = small_numbers({4, 5}, dtype), source = small_numbers({3, 6}, dtype);
    add(out, "aten.scatter.src", {x, 0, unique.slice(0, 0, 1), source});
    add(out, "aten.scatter.value", {x, -1, unique, 3});
    add(out, "aten.scatter_add", {x, 0, random_positions({3, 5}, 4), source});
    if (!at::isComplexType(dtype))
      add(out, "aten.scatter.reduce", {x, 1, random_positions({2, 3}, 5), source, "multiply"});
  }
  const at::Tensor x = at::randn({4, 5});
  add(out, "aten.scatter.reduce", {x.t(), -1, random_positions({2, 3}, 4), at::randn({2, 3}), "add"});
  for (const char* reduce : {"add", "multiply"})
    add(out, "aten.scatter.value_reduce", {x, 0, random_positions({2, 3}, 4), 1.5, reduce});
  add(out, "aten.scatter.value", {small_numbers({3}, at::kBool), 0, positions({1}), true});
  add(out, "aten.scatter.value", {at::randn({}), 0, positions({0}), 2});
  add(out, "aten.scatter.src", {at::randn({}), 0, at::zeros({}, at::kLong), at::randn({})});
  add(out, "aten.scatter_add", {x, 0, at::zeros({0, 5}, at::kLong), x});
  add(out, "aten.scatter.src", {x, 0, at::zeros({0}, at::kLong), at::randn({3})});
  add(out, "aten.scatter_add", {at::zeros({3}), 0, positions({1, 1, 1, 2}), at::randn({4})});
  add(out, "aten.scatter_add", {small_numbers({3}, at::kBool), 0, positions({1}), small_numbers({1}, at::kBool)});
}

void scatter_reductions(Samples& out) {
  for (const bool includes_self : {true, false}) {
    for (const char* reduce : {"sum", "prod", "mean", "amax", "amin"}) {
      at::Tensor source = at::randn({6});
      add(out, "aten.scatter_reduce.two",
          {at::randn({4}), 0, positions({1, 1, 0, 3, 1, 3}), source, reduce, includes_self});
      source[2] = NAN;
      source[3] = -INFINITY;
      add(out, "aten.scatter_reduce.two",
          {at::randn({4}), 0, positions({1, 1, 0, 3, 1, 3}), source, reduce, includes_self});
      add(out, "aten.scatter_reduce.two",
          {at::randn({3, 4}, at::kDouble).t(), 1, random_positions({4, 5}, 3), at::randn({4, 5}, at::kDouble), reduce,
           includes_self});
    }
    for (const char* reduce : {"sum", "prod", "mean", "amax", "amin"}) {
      for (const auto dtype : {at::kLong, at::kChar, at::kByte}) {
        const at::Tensor source = small_numbers({5}, dtype);
        add(out, "aten.scatter_reduce.two",
            {small_numbers({4}, dtype), 0, positions({1, 1, 0, 1, 0}), source, reduce, includes_self});
      }
    }
  }
  add(out, "aten.scatter_reduce.two",
      {at::randn({4}, at::kBFloat16), 0, positions({1, 1}), at::randn({2}, at::kBFloat16), "amax"});
  add(out, "aten.scatter_reduce.two", {at::randn({4}), 0, at::zeros({0}, at::kLong), at::randn({0}), "mean"});
  add(out, "aten.scatter_reduce.two",
      {small_numbers({4}, at::kBool), 0, positions({1}), small_numbers({1}, at::kBool), "amax"});
}

void rows(Samples& out) {
  for (const auto dtype : kNumbers) {
    const at::Tensor x = small_numbers({4, 3}, dtype);
    add(out, "aten.index_add", {x, 0, positions({1, 3, 1}), small_numbers({3, 3}, dtype), 2});
    add(out, "aten.index_copy", {x.t(), -1, positions({3, 0}), small_numbers({3, 2}, dtype)});
    add(out, "aten.index_fill.int_Scalar", {x, 1, positions({-1, 0}), 7});
    add(out, "aten.put", {x, positions({-1, 2}), small_numbers({2}, dtype)});
  }
  const at::Tensor x = at::randn({4, 3}), none = at::zeros({0}, at::kLong);
  add(out, "aten.index_add", {x, 1, positions({2, 2}).to(at::kInt), at::randn({2, 4}).t(), 0.5});
  add(out, "aten.index_add", {at::randn({}), 0, positions({0}), at::randn({})});
  add(out, "aten.index_add", {x, 0, none, at::randn({0, 3})});
  add(out, "aten.index_add", {small_numbers({2}, at::kBool), 0, positions({0}), small_numbers({1}, at::kBool)});
  add(out, "aten.index_copy", {small_numbers({3}, at::kBool), 0, positions({1}), at::zeros({1}, at::kBool)});
  add(out, "aten.index_copy", {at::randn({}), 0, positions({0}), at::randn({})});
  add(out, "aten.index_copy", {x, 0, none, at::randn({0, 3})});
  add(out, "aten.index_fill.int_Tensor", {x.t(), 0, positions({1, -1, 1}), at::scalar_tensor(NAN)});
  add(out, "aten.index_fill.int_Scalar", {at::randn({}), 0, positions({0}), 2});
  add(out, "aten.index_fill.int_Scalar", {x, 0, none, 2});
  add(out, "aten.put", {x.t(), positions({0, -1, 0}), at::randn({3}), true});
  add(out, "aten.put", {x, none, at::randn({0}), true});
}

void scatters_under_masks(Samples& out) {
  const at::Tensor x = at::randn({5, 3}), mask = at::randn({5, 3}).gt(0), source = at::randn({4, 5}).t();
  add(out, "aten.masked_scatter", {x, mask, source});
  add(out, "aten.masked_scatter", {source.t().contiguous().t(), mask.slice(1, 0, 1), at::randn({20})});
  add(out, "aten.masked_scatter", {x, at::ones({}, at::kBool), source});
  add(out, "aten.masked_scatter", {x, at::zeros({5, 3}, at::kBool), at::randn({0})});
  add(out, "aten.masked_scatter",
      {small_numbers({7}, at::kLong), at::ones({1}, at::kBool), small_numbers({7}, at::kLong)});
  add(out, "aten.masked_scatter", {at::randn({}), at::ones({}, at::kBool), at::randn({1})});
  add(out, "aten.masked_scatter", {at::randn({1, 3}), mask, at::randn({20})});
}

void gradients_of_embeddings(Samples& out) {
  const at::Tensor index = positions({1, 4, 1, 0, 5, 1}).reshape({2, 3});
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    for (const int64_t padding : {-1, 1}) {
      for (const bool scales : {false, true}) {
        add(out, "aten.embedding_dense_backward", {at::randn({2, 3, 4}, dtype), index, 6, padding, scales});
      }
    }
  }
  add(out, "aten.embedding_dense_backward", {at::randn({3, 2, 4}).transpose(0, 1), index.to(at::kInt), 7, -1, false});
  add(out, "aten.embedding_dense_backward", {at::randn({4}), positions({1})[0], 3, -1, false});
  add(out, "aten.embedding_dense_backward", {at::randn({0, 4}), at::zeros({0}, at::kLong), 3, -1, false});
}

void places_of_nonzeros(Samples& out) {
  for (const auto dtype : {at::kFloat, at::kLong, at::kBool}) {
    const at::Tensor x = at::tensor({0, 1, 0, 1, 1, 0, 0, 1, 0, 0, 0, 1}, at::kLong).reshape({3, 2, 2}).to(dtype);
    for (const int64_t size : {3, 5, 9}) {
      add(out, "aten.nonzero_static", {x, size});
      add(out, "aten.nonzero_static", {x.permute({2, 0, 1}), size, 7});
    }
  }
  add(out, "aten.nonzero_static", {at::tensor({0.F, NAN, -0.F, 2.F}), 3});
  add(out, "aten.nonzero_static", {at::zeros({0, 3}), 2});
}

void bags_of_rows(Samples& out) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    const at::Tensor table = at::randn({6, 3}, dtype), rows = positions({0, 2, 2, 5, 1});
    const at::Tensor begins = positions({0, 2, 2}), weights = at::rand({5}, dtype), g = at::randn({3, 3}, dtype);
    for (const int64_t padding : {-1, 2}) {
      for (const int64_t mode : {0, 1}) {
        const auto expect_bags = [&](const std::optional<at::Tensor>& each) {
          const auto [y, bags, sizes, most] =
              at::_embedding_bag(table, rows, begins, false, mode, false, each, false, padding);
          add(out, "aten._embedding_bag", {table, rows, begins, false, mode, false, each, false, padding});
          add(out, "aten._embedding_bag_backward",
              {g, rows, begins, bags, sizes, most, 6, false, mode, false, each, padding});
          if (mode != 0) return;
          add(out, "aten._embedding_bag_per_sample_weights_backward", {g, table, rows, begins, bags, mode, padding});
        };
        expect_bags({});
        if (mode == 0) expect_bags(weights);
      }
    }
    const at::Tensor ends = positions({0, 2, 2, 5});
    add(out, "aten._embedding_bag", {table, rows, ends, false, 1, false, c10::IValue(), true});
    add(out, "aten._embedding_bag", {table, rows, begins, false, 2});
  }
}

}  // namespace
}  // namespace indexing_calls

Samples calls_indexing() {
  using namespace indexing_calls;
  Samples out;
  gathers(out);
  indexes_by_tensors(out);
  puts_by_tensors(out);
  scatters(out);
  scatter_reductions(out);
  rows(out);
  scatters_under_masks(out);
  gradients_of_embeddings(out);
  places_of_nonzeros(out);
  bags_of_rows(out);
  return out;
}

}  // namespace diptych::test
