// Views, and what works in place.
#include "fuzz/operators.h"

namespace diptych::fuzz::detail {
namespace {

using A = const Tensors&;
using S = const Statement&;

Make two_dims() {
  return [](Chooser& choose, Statement& statement) {
    const int id = choose.variable(of_rank(is_any, 1));
    if (id < 0) return false;
    statement.args = {id};
    statement.ints = {choose_dim(choose, choose.tensor(id)), choose_dim(choose, choose.tensor(id))};
    return true;
  };
}

// A dimension that has elements and an index into it.
Make selected(Fits fits) {
  return [fits = of_rank(fits, 1)](Chooser& choose, Statement& statement) {
    const int id = choose.variable(fits);
    if (id < 0) return false;
    const int64_t dim = choose_dim(choose, choose.tensor(id));
    const int64_t size = choose.tensor(id).size(dim);
    if (size == 0) return false;
    statement.args = {id};
    statement.ints = {dim, choose.below(size)};
    statement.numbers = {choose.number()};
    return true;
  };
}

// A dimension, a start and a length.
Make narrowed(Fits fits) {
  return [fits = of_rank(fits, 1)](Chooser& choose, Statement& statement) {
    const int id = choose.variable(fits);
    if (id < 0) return false;
    const int64_t dim = choose_dim(choose, choose.tensor(id));
    const int64_t start = choose.below(choose.tensor(id).size(dim) + 1);
    statement.args = {id};
    statement.ints = {dim, start, choose.below(choose.tensor(id).size(dim) - start + 1)};
    statement.numbers = {choose.number()};
    return true;
  };
}

// The shape with two dimensions merged, or flat, or with a one in it.
Make reshaped() {
  return [](Chooser& choose, Statement& statement) {
    const int id = choose.variable(is_any);
    if (id < 0) return false;
    statement.args = {id};
    statement.ints = choose.tensor(id).sizes().vec();
    const auto rank = static_cast<int64_t>(statement.ints.size());
    if (rank > 1 && choose.chance(0.5)) {
      const int64_t at = choose.below(rank - 1);
      statement.ints[at] *= statement.ints[at + 1];
      statement.ints.erase(statement.ints.begin() + at + 1);
    } else if (choose.chance(0.5)) {
      statement.ints.insert(statement.ints.begin() + choose.below(rank + 1), 1);
    } else {
      statement.ints = {choose.tensor(id).numel()};
    }
    return true;
  };
}

Make unsqueezed() {
  return [](Chooser& choose, Statement& statement) {
    const int id = choose.variable(of_rank(is_any, 0, 3));
    if (id < 0) return false;
    statement.args = {id};
    statement.ints = {choose.below(choose.tensor(id).dim() + 1)};
    return true;
  };
}

Make permuted() {
  return [](Chooser& choose, Statement& statement) {
    const int id = choose.variable(of_rank(is_any, 2));
    if (id < 0) return false;
    statement.args = {id};
    for (int64_t i = 0; i < choose.tensor(id).dim(); ++i) {
      statement.ints.insert(statement.ints.begin() + choose.below(i + 1), i);
    }
    return true;
  };
}

Make expanded() {
  return [](Chooser& choose, Statement& statement) {
    const int id = choose.variable(of_rank(is_any, 0, 2));
    if (id < 0) return false;
    statement.args = {id};
    statement.ints = choose.tensor(id).sizes().vec();
    for (auto& size : statement.ints) {
      if (size == 1) size = 1 + choose.below(3);
    }
    statement.ints.insert(statement.ints.begin(), 1 + choose.below(2));
    return true;
  };
}

}  // namespace

std::vector<Operator> view_operators() {
  const auto matrix = of_rank(is_any, 2);
  return {
      {"view", "{0}.view({ints})", 4, Kind::kView, reshaped(), [](A a, S s) -> Tensors { return {a[0].view(s.ints)}; }},
      {"other_owner", "at::from_blob({0}.data_ptr(), {0}.sizes())", 0, Kind::kView, one(is_any),
       [](A a, S) -> Tensors {
         return {at::from_blob(
             a[0].data_ptr(), a[0].sizes(), [kept = a[0]](void*) {}, a[0].options())};
       }},
      {"reshape", "{0}.reshape({ints})", 3, Kind::kView, reshaped(),
       [](A a, S s) -> Tensors { return {a[0].reshape(s.ints)}; }},
      {"transpose", "{0}.transpose({i0}, {i1})", 3, Kind::kView, two_dims(),
       [](A a, S s) -> Tensors { return {a[0].transpose(s.ints[0], s.ints[1])}; }},
      {"permute", "{0}.permute({ints})", 2, Kind::kView, permuted(),
       [](A a, S s) -> Tensors { return {a[0].permute(s.ints)}; }},
      {"t", "{0}.t()", 3, Kind::kView, one(of_rank(is_any, 1, 2)), [](A a, S) -> Tensors { return {a[0].t()}; }},
      {"select", "{0}.select({i0}, {i1})", 4, Kind::kView, selected(is_any),
       [](A a, S s) -> Tensors { return {a[0].select(s.ints[0], s.ints[1])}; }},
      {"narrow", "{0}.narrow({i0}, {i1}, {i2})", 4, Kind::kView, narrowed(is_any),
       [](A a, S s) -> Tensors { return {a[0].narrow(s.ints[0], s.ints[1], s.ints[2])}; }},
      {"slice", "{0}.slice({i0}, {i1}, std::nullopt, 2)", 2, Kind::kView, narrowed(is_any),
       [](A a, S s) -> Tensors { return {a[0].slice(s.ints[0], s.ints[1], std::nullopt, 2)}; }},
      {"unsqueeze", "{0}.unsqueeze({i0})", 3, Kind::kView, unsqueezed(),
       [](A a, S s) -> Tensors { return {a[0].unsqueeze(s.ints[0])}; }},
      {"squeeze", "{0}.squeeze()", 2, Kind::kView, one(is_any), [](A a, S) -> Tensors { return {a[0].squeeze()}; }},
      {"squeeze_dim", "{0}.squeeze({i0})", 2, Kind::kView, one_with_dim(is_any),
       [](A a, S s) -> Tensors { return {a[0].squeeze(s.ints[0])}; }},
      {"expand", "{0}.expand({ints})", 3, Kind::kView, expanded(),
       [](A a, S s) -> Tensors { return {a[0].expand(s.ints)}; }},
      {"diagonal", "{0}.diagonal(0, 0, 1)", 2, Kind::kView, one(matrix),
       [](A a, S) -> Tensors { return {a[0].diagonal(0, 0, 1)}; }},
      {"unfold", "{0}.unfold(0, 2, 1)", 1, Kind::kView,
       one(of_rank([](const at::Tensor& t) { return t.dim() > 0 && t.size(0) >= 2; }, 1, 2)),
       [](A a, S) -> Tensors { return {a[0].unfold(0, 2, 1)}; }},
      {"flatten", "{0}.flatten()", 2, Kind::kView, one(is_any), [](A a, S) -> Tensors { return {a[0].flatten()}; }},
      {"view_as", "{0}.view_as({0})", 1, Kind::kView, one(is_any),
       [](A a, S) -> Tensors { return {a[0].view_as(a[0])}; }},
      {"alias", "at::alias({0})", 1, Kind::kView, one(is_any), [](A a, S) -> Tensors { return {at::alias(a[0])}; }},
      {"movedim", "{0}.movedim({i0}, {i1})", 1, Kind::kView, two_dims(),
       [](A a, S s) -> Tensors { return {a[0].movedim(s.ints[0], s.ints[1])}; }},
      {"unbind", "{0}.unbind({i0})", 3, Kind::kView, one_with_dim(is_any),
       [](A a, S s) { return a[0].unbind(s.ints[0]); }},
      {"split", "{0}.split(2, {i0})", 2, Kind::kView, one_with_dim(is_any),
       [](A a, S s) { return a[0].split(2, s.ints[0]); }},
      {"chunk", "{0}.chunk(2, {i0})", 2, Kind::kView, one_with_dim(is_any),
       [](A a, S s) { return a[0].chunk(2, s.ints[0]); }},
  };
}

namespace {

std::vector<Operator> whole_in_place() {
  return {
      {"add_", "{0}.add_({1})", 6, Kind::kInPlace, onto_first(is_number),
       [](A a, S) -> Tensors {
         a[0].add_(a[1]);
         return {};
       }},
      {"mul_", "{0}.mul_({1})", 5, Kind::kInPlace, onto_first(is_number),
       [](A a, S) -> Tensors {
         a[0].mul_(a[1]);
         return {};
       }},
      {"copy_", "{0}.copy_({1})", 4, Kind::kInPlace, onto_first(is_any),
       [](A a, S) -> Tensors {
         a[0].copy_(a[1]);
         return {};
       }},
      {"add_number_", "{0}.add_({n0})", 4, Kind::kInPlace, one_with_numbers(is_float, 1),
       [](A a, S s) -> Tensors {
         a[0].add_(s.numbers[0]);
         return {};
       }},
      {"mul_number_", "{0}.mul_({n0})", 4, Kind::kInPlace, one_with_numbers(is_float, 1),
       [](A a, S s) -> Tensors {
         a[0].mul_(s.numbers[0]);
         return {};
       }},
      {"fill_", "{0}.fill_({n0})", 2, Kind::kInPlace, one_with_numbers(is_any, 1),
       [](A a, S s) -> Tensors {
         a[0].fill_(s.numbers[0]);
         return {};
       }},
      {"zero_", "{0}.zero_()", 2, Kind::kInPlace, one(is_any),
       [](A a, S) -> Tensors {
         a[0].zero_();
         return {};
       }},
      {"clamp_", "{0}.clamp_(-1, 1)", 2, Kind::kInPlace, one(is_number),
       [](A a, S) -> Tensors {
         a[0].clamp_(-1, 1);
         return {};
       }},
      {"relu_", "{0}.relu_()", 2, Kind::kInPlace, one(is_number),
       [](A a, S) -> Tensors {
         a[0].relu_();
         return {};
       }},
      {"sigmoid_", "{0}.sigmoid_()", 2, Kind::kInPlace, one(is_float),
       [](A a, S) -> Tensors {
         a[0].sigmoid_();
         return {};
       }},
      {"sin_", "{0}.sin_()", 2, Kind::kInPlace, one(is_float),
       [](A a, S) -> Tensors {
         a[0].sin_();
         return {};
       }},
      {"masked_fill_", "{0}.masked_fill_({0}.gt(0), {n0})", 1, Kind::kInPlace, one_with_numbers(is_float, 1),
       [](A a, S s) -> Tensors {
         a[0].masked_fill_(a[0].gt(0), s.numbers[0]);
         return {};
       }},
      {"uniform_", "{0}.uniform_()", 1, Kind::kInPlace, one(is_float),
       [](A a, S) -> Tensors {
         a[0].uniform_();
         return {};
       }},
      {"detach_copy_", "{0}.detach().mul_(2)", 2, Kind::kInPlace, one(is_float),
       [](A a, S) -> Tensors {
         a[0].detach().mul_(2);
         return {};
       }},
  };
}

std::vector<Operator> partly_in_place() {
  return {
      {"select_fill_", "{0}.select({i0}, {i1}).fill_({n0})", 3, Kind::kInPlace, selected(is_any),
       [](A a, S s) -> Tensors {
         a[0].select(s.ints[0], s.ints[1]).fill_(s.numbers[0]);
         return {};
       }},
      {"select_mul_", "{0}.select({i0}, {i1}).mul_({n0})", 2, Kind::kInPlace, selected(is_float),
       [](A a, S s) -> Tensors {
         a[0].select(s.ints[0], s.ints[1]).mul_(s.numbers[0]);
         return {};
       }},
      {"narrow_add_", "{0}.narrow({i0}, {i1}, {i2}).add_({n0})", 3, Kind::kInPlace, narrowed(is_float),
       [](A a, S s) -> Tensors {
         a[0].narrow(s.ints[0], s.ints[1], s.ints[2]).add_(s.numbers[0]);
         return {};
       }},
      {"diagonal_zero_", "{0}.diagonal(0, 0, 1).zero_()", 1, Kind::kInPlace, one(of_rank(is_any, 2)),
       [](A a, S) -> Tensors {
         a[0].diagonal(0, 0, 1).zero_();
         return {};
       }},
      {"index_put_", "{0}.index_put_({at::tensor(0)}, {0}.select(0, -1).clone())", 2, Kind::kInPlace,
       one(of_rank([](const at::Tensor& t) { return is_float(t) && t.numel() > 0; }, 1)),
       [](A a, S) -> Tensors {
         a[0].index_put_({at::zeros({}, at::kLong)}, a[0].select(0, -1).clone());
         return {};
       }},
      {"index_fill_", "{0}.index_fill_(0, at::zeros(1, at::kLong), {n0})", 1, Kind::kInPlace,
       one_with_numbers(of_rank([](const at::Tensor& t) { return is_float(t) && t.numel() > 0; }, 1), 1),
       [](A a, S s) -> Tensors {
         a[0].index_fill_(0, at::zeros({1}, at::kLong), s.numbers[0]);
         return {};
       }},
  };
}

std::vector<Operator> metadata_in_place() {
  return {
      {"t_", "{0}.t_()", 1, Kind::kInPlace, one(of_rank(is_any, 2, 2)),
       [](A a, S) -> Tensors {
         a[0].t_();
         return {};
       }},
      {"unsqueeze_", "{0}.unsqueeze_({i0})", 1, Kind::kInPlace, unsqueezed(),
       [](A a, S s) -> Tensors {
         a[0].unsqueeze_(s.ints[0]);
         return {};
       }},
      {"squeeze_", "{0}.squeeze_()", 1, Kind::kInPlace, one(is_any),
       [](A a, S) -> Tensors {
         a[0].squeeze_();
         return {};
       }},
      {"transpose_", "{0}.transpose_({i0}, {i1})", 1, Kind::kInPlace, two_dims(),
       [](A a, S s) -> Tensors {
         a[0].transpose_(s.ints[0], s.ints[1]);
         return {};
       }},
  };
}

}  // namespace

std::vector<Operator> in_place_operators() {
  std::vector<Operator> all;
  for (const auto& rows : {whole_in_place(), partly_in_place(), metadata_in_place()})
    all.insert(all.end(), rows.begin(), rows.end());
  return all;
}

}  // namespace diptych::fuzz::detail
