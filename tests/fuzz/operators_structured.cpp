// Reductions, products, indexing, joining and layers.
#include "fuzz/operators.h"

namespace diptych::fuzz::detail {
namespace {

using A = const Tensors&;
using S = const Statement&;

bool float_with_elements(const at::Tensor& tensor) { return is_float(tensor) && has_elements(tensor); }

// Two of one dtype for which `fit` holds.
Make pair_of(Fits first_fits, std::function<bool(const at::Tensor&, const at::Tensor&)> fit) {
  return [=](Chooser& choose, Statement& statement) {
    const int a = choose.variable(first_fits);
    if (a < 0) return false;
    const at::Tensor first = choose.tensor(a);
    const int b =
        choose.variable([&](const at::Tensor& t) { return t.scalar_type() == first.scalar_type() && fit(first, t); });
    statement.args = {a, b};
    return b >= 0;
  };
}

// A tensor, a dimension with elements, and a vector of integers to index it with.
Make with_index(Fits fits) {
  return [fits = of_rank(fits, 1)](Chooser& choose, Statement& statement) {
    const int a = choose.variable([&](const at::Tensor& t) { return fits(t) && has_elements(t); });
    const int index = choose.variable(of_rank(is_long, 1, 1));
    if (a < 0 || index < 0) return false;
    const int64_t dim = choose_dim(choose, choose.tensor(a));
    statement.args = {a, index};
    statement.ints = {dim, choose.tensor(a).size(dim)};
    return true;
  };
}

Make joined(bool stacked) {
  return [stacked](Chooser& choose, Statement& statement) {
    const int a = choose.variable(of_rank(is_any, stacked ? 0 : 1));
    if (a < 0) return false;
    const at::Tensor first = choose.tensor(a);
    statement.args = {a};
    for (int64_t i = choose.below(3); i >= 0; --i) {
      statement.args.push_back(choose.variable(
          [&](const at::Tensor& t) { return t.sizes() == first.sizes() && (t.scalar_type() == first.scalar_type()); }));
    }
    statement.ints = {choose.below(first.dim() + (stacked ? 1 : 0))};
    return true;
  };
}

}  // namespace

std::vector<Operator> reduction_operators() {
  const Fits filled = float_with_elements;
  return {
      {"sum", "{0}.sum()", 5, Kind::kPlain, one(is_number), [](A a, S) -> Tensors { return {a[0].sum()}; }},
      {"mean", "{0}.mean()", 2, Kind::kPlain, one(filled), [](A a, S) -> Tensors { return {a[0].mean()}; }},
      {"sum_dim", "{0}.sum({i0})", 4, Kind::kPlain, one_with_dim(is_any),
       [](A a, S s) -> Tensors { return {a[0].sum(s.ints[0])}; }},
      {"sum_keepdim", "{0}.sum({i0}, /*keepdim=*/true)", 2, Kind::kPlain, one_with_dim(is_any),
       [](A a, S s) -> Tensors { return {a[0].sum(s.ints[0], true)}; }},
      {"mean_dim", "{0}.mean({i0})", 2, Kind::kPlain, one_with_dim(filled),
       [](A a, S s) -> Tensors { return {a[0].mean(s.ints[0])}; }},
      {"amax", "{0}.amax({i0})", 2, Kind::kPlain, one_with_dim(filled),
       [](A a, S s) -> Tensors { return {a[0].amax(s.ints[0])}; }},
      {"max_dim", "{0}.max({i0})", 2, Kind::kPlain, one_with_dim(filled),
       [](A a, S s) -> Tensors {
         auto [values, indices] = a[0].max(s.ints[0]);
         return {values, indices};
       }},
      {"sort", "{0}.sort({i0})", 2, Kind::kPlain, one_with_dim(filled),
       [](A a, S s) -> Tensors {
         auto [values, indices] = a[0].sort(s.ints[0]);
         return {values, indices};
       }},
      {"argmax", "{0}.argmax({i0})", 1, Kind::kPlain, one_with_dim(filled),
       [](A a, S s) -> Tensors { return {a[0].argmax(s.ints[0])}; }},
      {"var", "{0}.var(/*unbiased=*/false)", 1, Kind::kPlain, one(filled),
       [](A a, S) -> Tensors { return {a[0].var(false)}; }},
      {"cumsum", "{0}.cumsum({i0})", 2, Kind::kPlain, one_with_dim(is_float),
       [](A a, S s) -> Tensors { return {a[0].cumsum(s.ints[0])}; }},
      {"logsumexp", "{0}.logsumexp({i0})", 1, Kind::kPlain, one_with_dim(filled),
       [](A a, S s) -> Tensors { return {a[0].logsumexp(s.ints[0])}; }},
      {"any", "{0}.any()", 1, Kind::kPlain, one(is_any), [](A a, S) -> Tensors { return {a[0].any()}; }},
      {"flip", "{0}.flip({i0})", 1, Kind::kPlain, one_with_dim(is_any),
       [](A a, S s) -> Tensors { return {a[0].flip(s.ints[0])}; }},
      {"roll", "{0}.roll(1, {i0})", 1, Kind::kPlain, one_with_dim(is_any),
       [](A a, S s) -> Tensors { return {a[0].roll(1, s.ints[0])}; }},
      {"softmax", "{0}.softmax({i0})", 3, Kind::kPlain, one_with_dim(is_float),
       [](A a, S s) -> Tensors { return {a[0].softmax(s.ints[0])}; }},
      {"log_softmax", "{0}.log_softmax({i0})", 2, Kind::kPlain, one_with_dim(is_float),
       [](A a, S s) -> Tensors { return {a[0].log_softmax(s.ints[0])}; }},
      {"layer_norm", "at::layer_norm({0}, {0}.size(-1))", 2, Kind::kPlain, one(of_rank(filled, 1)),
       [](A a, S) -> Tensors { return {at::layer_norm(a[0], {a[0].size(-1)})}; }},
  };
}

std::vector<Operator> structured_operators() {
  const auto is_matrix = of_rank(is_float, 2, 2);
  return {
      {"matmul", "{0}.matmul({1})", 4, Kind::kPlain,
       pair_of(of_rank(is_float, 1),
               [](const at::Tensor& a, const at::Tensor& b) {
                 if (b.dim() == 0 || b.dim() > 2) return false;
                 return a.size(-1) == b.size(b.dim() == 1 ? 0 : -2);
               }),
       [](A a, S) -> Tensors { return {a[0].matmul(a[1])}; }},
      {"mm_t", "{0}.mm({1}.t())", 3, Kind::kPlain,
       pair_of(is_matrix,
               [](const at::Tensor& a, const at::Tensor& b) { return b.dim() == 2 && a.size(1) == b.size(1); }),
       [](A a, S) -> Tensors { return {a[0].mm(a[1].t())}; }},
      {"linear", "at::linear({0}, {1})", 2, Kind::kPlain,
       pair_of(of_rank(is_float, 1),
               [](const at::Tensor& a, const at::Tensor& b) { return b.dim() == 2 && a.size(-1) == b.size(1); }),
       [](A a, S) -> Tensors { return {at::linear(a[0], a[1])}; }},
      {"bmm_t", "{0}.bmm({1}.transpose(1, 2))", 1, Kind::kPlain,
       pair_of(of_rank(is_float, 3, 3),
               [](const at::Tensor& a, const at::Tensor& b) { return b.sizes() == a.sizes(); }),
       [](A a, S) -> Tensors { return {a[0].bmm(a[1].transpose(1, 2))}; }},
      {"layer_norm_weight", "at::layer_norm({0}, {0}.size(-1), {1}, {1})", 2, Kind::kPlain,
       pair_of(of_rank(float_with_elements, 1),
               [](const at::Tensor& a, const at::Tensor& b) { return b.dim() == 1 && a.size(-1) == b.size(0); }),
       [](A a, S) -> Tensors { return {at::layer_norm(a[0], {a[0].size(-1)}, a[1], a[1])}; }},
      {"index_select", "{0}.index_select({i0}, {1}.remainder({i1}))", 2, Kind::kPlain, with_index(is_any),
       [](A a, S s) -> Tensors { return {a[0].index_select(s.ints[0], a[1].remainder(s.ints[1]))}; }},
      {"index", "{0}.index({{1}.remainder({0}.size(0))})", 2, Kind::kPlain, with_index(is_any),
       [](A a, S) -> Tensors { return {a[0].index({a[1].remainder(a[0].size(0))})}; }},
      {"embedding", "at::embedding({0}, {1}.remainder({0}.size(0)))", 2, Kind::kPlain, with_index(is_matrix),
       [](A a, S) -> Tensors { return {at::embedding(a[0], a[1].remainder(a[0].size(0)))}; }},
      {"gather", "{0}.gather({i0}, at::zeros_like({0}, at::kLong))", 2, Kind::kPlain, one_with_dim(is_float),
       [](A a, S s) -> Tensors { return {a[0].gather(s.ints[0], at::zeros_like(a[0], at::kLong))}; }},
      {"cat", "at::cat({args}, {i0})", 3, Kind::kPlain, joined(false),
       [](A a, S s) -> Tensors { return {at::cat(a, s.ints[0])}; }},
      {"stack", "at::stack({args}, {i0})", 3, Kind::kPlain, joined(true),
       [](A a, S s) -> Tensors { return {at::stack(a, s.ints[0])}; }},
      {"repeat", "{0}.unsqueeze(0).repeat_interleave(2, 0)", 1, Kind::kPlain, one(of_rank(is_float, 0, 2)),
       [](A a, S) -> Tensors { return {a[0].unsqueeze(0).repeat_interleave(2, 0)}; }},
      {"pad", "at::constant_pad_nd({0}, {1, 1}, {n0})", 1, Kind::kPlain, one_with_numbers(of_rank(is_float, 1), 1),
       [](A a, S s) -> Tensors {
         return {at::constant_pad_nd(a[0], {1, 1}, s.numbers[0])};
       }},
      {"index_add", "{0}.index_add({i0}, {1}.remainder({i1}), {0}.index_select({i0}, {1}.remainder({i1})))", 1,
       Kind::kPlain, with_index(is_float),
       [](A a, S s) -> Tensors {
         const at::Tensor index = a[1].remainder(s.ints[1]);
         return {a[0].index_add(s.ints[0], index, a[0].index_select(s.ints[0], index))};
       }},
  };
}

}  // namespace diptych::fuzz::detail
