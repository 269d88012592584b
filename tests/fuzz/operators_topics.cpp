// What only programs of a topic draw: complex numbers, factories and numbers that take the default dtype, hooks.
#include "fuzz/operators.h"

namespace diptych::fuzz::detail {
namespace {

using A = const Tensors&;
using S = const Statement&;
using Complex = c10::complex<double>;

bool is_inexact(const at::Tensor& tensor) { return is_float(tensor) || has_complex(tensor); }
bool is_half(const at::Tensor& tensor) { return at::isReducedFloatingType(tensor.scalar_type()); }
Complex number_of(S s) { return {s.numbers[0], s.numbers[1]}; }

// Two floats of one dtype, of which the second broadcasts to the first.
Make parts() {
  return [](Chooser& choose, Statement& statement) {
    const int a = choose.variable([](const at::Tensor& t) { return is_float(t) && !is_half(t); });
    if (a < 0) return false;
    const at::Tensor first = choose.tensor(a);
    statement.args = {a, choose.variable([&](const at::Tensor& t) {
                        return t.scalar_type() == first.scalar_type() && broadcasts(t.sizes(), first.sizes());
                      })};
    return true;
  };
}

// A complex tensor and one whose dtype is that of its parts.
Make with_a_part() {
  return [](Chooser& choose, Statement& statement) {
    const int a = choose.variable(has_complex);
    if (a < 0) return false;
    const at::Tensor first = choose.tensor(a);
    const int b =
        choose.variable([&](const at::Tensor& t) { return !has_complex(t) && broadcasts(t.sizes(), first.sizes()); });
    statement.args = {a, b};
    return b >= 0;
  };
}

Make multiplied() {
  return [](Chooser& choose, Statement& statement) {
    const int a = choose.variable(of_rank(has_complex, 1));
    if (a < 0) return false;
    const at::Tensor first = choose.tensor(a);
    const int b = choose.variable([&](const at::Tensor& t) {
      if (t.scalar_type() != first.scalar_type() || t.dim() == 0 || t.dim() > 2) return false;
      return first.size(-1) == t.size(t.dim() == 1 ? 0 : -2);
    });
    statement.args = {a, b};
    return b >= 0;
  };
}

bool is_pairs(const at::Tensor& tensor) {
  return is_float(tensor) && tensor.dim() > 0 && tensor.size(-1) == 2 && tensor.stride(-1) == 1;
}

std::vector<Operator> complex_views() {
  return {
      {"conj", "{0}.conj()", 8, Kind::kView, one(has_complex), [](A a, S) -> Tensors { return {a[0].conj()}; }},
      {"real", "at::real({0})", 4, Kind::kView, one(is_any), [](A a, S) -> Tensors { return {at::real(a[0])}; }},
      {"imag", "at::imag({0})", 5, Kind::kView, one(has_complex), [](A a, S) -> Tensors { return {at::imag(a[0])}; }},
      {"neg_view", "at::_neg_view({0})", 2, Kind::kView, one(is_inexact),
       [](A a, S) -> Tensors { return {at::_neg_view(a[0])}; }},
      {"resolve_conj", "{0}.resolve_conj()", 3, Kind::kView, one(has_complex),
       [](A a, S) -> Tensors { return {a[0].resolve_conj()}; }},
      {"resolve_neg", "{0}.resolve_neg()", 2, Kind::kView, one(is_inexact),
       [](A a, S) -> Tensors { return {a[0].resolve_neg()}; }},
      {"view_as_real", "at::view_as_real({0}.resolve_conj())", 4, Kind::kView, one(has_complex),
       [](A a, S) -> Tensors { return {at::view_as_real(a[0].resolve_conj())}; }},
      {"view_as_complex", "at::view_as_complex({0})", 3, Kind::kView, one(is_pairs),
       [](A a, S) -> Tensors { return {at::view_as_complex(a[0])}; }},
      {"mH", "{0}.mH()", 3, Kind::kView, one(of_rank(has_complex, 2)), [](A a, S) -> Tensors { return {a[0].mH()}; }},
  };
}

std::vector<Operator> complex_unary() {
  return {
      {"to_complex", "{0}.to(at::kComplexFloat)", 3, Kind::kPlain, one(is_any),
       [](A a, S) -> Tensors { return {a[0].to(at::kComplexFloat)}; }},
      {"to_complex_double", "{0}.to(at::kComplexDouble)", 1, Kind::kPlain, one(is_any),
       [](A a, S) -> Tensors { return {a[0].to(at::kComplexDouble)}; }},
      {"conj_physical", "at::conj_physical({0})", 2, Kind::kPlain, one(is_any),
       [](A a, S) -> Tensors { return {at::conj_physical(a[0])}; }},
      {"angle", "{0}.angle()", 1, Kind::kPlain, one(has_complex), [](A a, S) -> Tensors { return {a[0].angle()}; }},
      {"sgn", "{0}.sgn()", 1, Kind::kPlain, one(has_complex), [](A a, S) -> Tensors { return {a[0].sgn()}; }},
      {"complex_exp", "{0}.mul(0.25).exp()", 2, Kind::kPlain, one(has_complex),
       [](A a, S) -> Tensors { return {a[0].mul(0.25).exp()}; }},
      {"complex_sin", "{0}.mul(0.25).sin()", 1, Kind::kPlain, one(has_complex),
       [](A a, S) -> Tensors { return {a[0].mul(0.25).sin()}; }},
      {"complex_square", "{0}.pow(2)", 2, Kind::kPlain, one(has_complex),
       [](A a, S) -> Tensors { return {a[0].pow(2)}; }},
      {"complex_mean", "{0}.mean()", 1, Kind::kPlain,
       one([](const at::Tensor& t) { return has_complex(t) && has_elements(t); }),
       [](A a, S) -> Tensors { return {a[0].mean()}; }},
      {"complex_cumsum", "{0}.cumsum({i0})", 1, Kind::kPlain, one_with_dim(has_complex),
       [](A a, S s) -> Tensors { return {a[0].cumsum(s.ints[0])}; }},
      {"complex_tril", "{0}.tril()", 1, Kind::kPlain, one(of_rank(has_complex, 2)),
       [](A a, S) -> Tensors { return {a[0].tril()}; }},
  };
}

std::vector<Operator> complex_several() {
  return {
      {"complex", "at::complex({0}, {1}.expand_as({0}))", 6, Kind::kPlain, parts(),
       [](A a, S) -> Tensors { return {at::complex(a[0], a[1].expand_as(a[0]))}; }},
      {"polar", "at::polar({0}, {1})", 1, Kind::kPlain, parts(),
       [](A a, S) -> Tensors { return {at::polar(a[0], a[1])}; }},
      {"mul_conj", "{0}.mul({1}.conj())", 5, Kind::kPlain, two(has_complex),
       [](A a, S) -> Tensors { return {a[0].mul(a[1].conj())}; }},
      {"magnitude", "{0}.mul({0}.conj()).real()", 3, Kind::kPlain, one(has_complex),
       [](A a, S) -> Tensors { return {at::real(a[0].mul(a[0].conj()))}; }},
      {"complex_div", "{0}.div({1}.abs().add(1))", 1, Kind::kPlain, two(has_complex),
       [](A a, S) -> Tensors { return {a[0].div(a[1].abs().add(1))}; }},
      {"complex_matmul", "{0}.matmul({1})", 3, Kind::kPlain, multiplied(),
       [](A a, S) -> Tensors { return {a[0].matmul(a[1])}; }},
      {"complex_gram", "{0}.matmul({0}.mH())", 2, Kind::kPlain, one(of_rank(has_complex, 2)),
       [](A a, S) -> Tensors { return {a[0].matmul(a[0].mH())}; }},
      {"complex_where", "at::where({1}.gt(0), {0}, {0}.conj())", 1, Kind::kPlain, with_a_part(),
       [](A a, S) -> Tensors { return {at::where(a[1].gt(0), a[0], a[0].conj())}; }},
      {"mul_complex_number", "{0}.mul(c10::complex({n0}, {n1}))", 3, Kind::kPlain, one_with_numbers(is_any, 2),
       [](A a, S s) -> Tensors { return {a[0].mul(number_of(s))}; }},
      {"add_complex_number", "{0}.add(c10::complex({n0}, {n1}))", 2, Kind::kPlain, one_with_numbers(is_any, 2),
       [](A a, S s) -> Tensors { return {a[0].add(number_of(s))}; }},
      {"tensor_of_complex", "torch::tensor(c10::complex({n0}, {n1}))", 1, Kind::kPlain, one_with_numbers(is_any, 2),
       [](A, S s) -> Tensors { return {torch::tensor(number_of(s))}; }},
  };
}

std::vector<Operator> complex_in_place() {
  return {
      {"conj_mul_", "{0}.conj().mul_(c10::complex({n0}, {n1}))", 3, Kind::kInPlace, one_with_numbers(has_complex, 2),
       [](A a, S s) -> Tensors {
         a[0].conj().mul_(number_of(s));
         return {};
       }},
      {"imag_add_", "at::imag({0}).add_({n0})", 3, Kind::kInPlace, one_with_numbers(has_complex, 1),
       [](A a, S s) -> Tensors {
         at::imag(a[0]).add_(s.numbers[0]);
         return {};
       }},
      {"conj_imag_copy_", "at::imag({0}.conj()).copy_({1})", 2, Kind::kInPlace, with_a_part(),
       [](A a, S) -> Tensors {
         at::imag(a[0].conj()).copy_(a[1]);
         return {};
       }},
      {"real_mul_", "at::real({0}).mul_({n0})", 2, Kind::kInPlace, one_with_numbers(has_complex, 1),
       [](A a, S s) -> Tensors {
         at::real(a[0]).mul_(s.numbers[0]);
         return {};
       }},
      {"conj_physical_", "{0}.conj_physical_()", 2, Kind::kInPlace, one(has_complex),
       [](A a, S) -> Tensors {
         a[0].conj_physical_();
         return {};
       }},
      {"neg_view_add_", "at::_neg_view({0}).add_({n0})", 2, Kind::kInPlace, one_with_numbers(is_inexact, 1),
       [](A a, S s) -> Tensors {
         at::_neg_view(a[0]).add_(s.numbers[0]);
         return {};
       }},
  };
}

Make sizes_and_numbers() {
  return [](Chooser& choose, Statement& statement) {
    statement.ints = {choose.below(3) + 1, choose.below(4)};
    statement.numbers = {choose.number(), choose.number()};
    return true;
  };
}

std::vector<Operator> default_factories() {
  const Make make = sizes_and_numbers();
  return {
      {"ones", "torch::ones({ints})", 2, Kind::kPlain, make, [](A, S s) -> Tensors { return {torch::ones(s.ints)}; }},
      {"full", "torch::full({ints}, {n0})", 2, Kind::kPlain, make,
       [](A, S s) -> Tensors { return {torch::full(s.ints, s.numbers[0])}; }},
      {"empty_filled", "torch::empty({ints}).fill_({n0})", 1, Kind::kPlain, make,
       [](A, S s) -> Tensors { return {torch::empty(s.ints).fill_(s.numbers[0])}; }},
      {"eye", "torch::eye({i0})", 1, Kind::kPlain, make, [](A, S s) -> Tensors { return {torch::eye(s.ints[0])}; }},
      {"linspace", "torch::linspace({n0}, {n1}, {i0})", 2, Kind::kPlain, make,
       [](A, S s) -> Tensors { return {torch::linspace(s.numbers[0], s.numbers[1], s.ints[0])}; }},
      {"arange_halves", "torch::arange(0, {i1}, 0.5)", 2, Kind::kPlain, make,
       [](A, S s) -> Tensors { return {torch::arange(0, s.ints[1], 0.5)}; }},
      {"rand", "torch::rand({ints})", 1, Kind::kPlain, make, [](A, S s) -> Tensors { return {torch::rand(s.ints)}; }},
      {"tensor_of_number_and_int", "torch::tensor({i1}).mul({n0})", 2, Kind::kPlain, make,
       [](A, S s) -> Tensors { return {torch::tensor(s.ints[1]).mul(s.numbers[0])}; }},
  };
}

bool is_whole_or_bool(const at::Tensor& tensor) { return is_whole(tensor) || is_bool(tensor); }

// Floats come of whole numbers, and those are of the default dtype.
std::vector<Operator> whole_numbers() {
  return {
      {"whole_mul_number", "{0}.mul({n0})", 4, Kind::kPlain, one_with_numbers(is_whole_or_bool, 1),
       [](A a, S s) -> Tensors { return {a[0].mul(s.numbers[0])}; }},
      {"whole_add_number", "{0}.add({n0})", 3, Kind::kPlain, one_with_numbers(is_whole_or_bool, 1),
       [](A a, S s) -> Tensors { return {a[0].add(s.numbers[0])}; }},
      {"whole_rsub_number", "at::rsub({0}, {n0})", 1, Kind::kPlain, one_with_numbers(is_whole, 1),
       [](A a, S s) -> Tensors { return {at::rsub(a[0], s.numbers[0])}; }},
      {"whole_div", "{0}.div({1}.abs().add(1))", 3, Kind::kPlain, two(is_whole),
       [](A a, S) -> Tensors { return {a[0].div(a[1].abs().add(1))}; }},
      {"whole_sqrt", "{0}.abs().sqrt()", 2, Kind::kPlain, one(is_whole),
       [](A a, S) -> Tensors { return {a[0].abs().sqrt()}; }},
      {"whole_sin", "{0}.sin()", 2, Kind::kPlain, one(is_whole_or_bool),
       [](A a, S) -> Tensors { return {a[0].sin()}; }},
      {"whole_sigmoid", "{0}.sigmoid()", 2, Kind::kPlain, one(is_whole_or_bool),
       [](A a, S) -> Tensors { return {a[0].sigmoid()}; }},
      {"whole_atan2", "at::atan2({0}, {1}.abs().add(1))", 1, Kind::kPlain, two(is_whole),
       [](A a, S) -> Tensors { return {at::atan2(a[0], a[1].abs().add(1))}; }},
      {"whole_pow", "{0}.abs().add(1).pow({n0})", 1, Kind::kPlain, one_with_numbers(is_whole, 1),
       [](A a, S s) -> Tensors { return {a[0].abs().add(1).pow(s.numbers[0])}; }},
      {"whole_clamp", "{0}.clamp_min(0.5)", 1, Kind::kPlain, one(is_whole),
       [](A a, S) -> Tensors { return {a[0].clamp_min(0.5)}; }},
      {"where_numbers", "at::where({0}.gt(0), {n0}, {n1})", 2, Kind::kPlain, one_with_numbers(is_number, 2),
       [](A a, S s) -> Tensors { return {at::where(a[0].gt(0), s.numbers[0], s.numbers[1])}; }},
      {"where_number", "at::where({0}.gt(0), {0}, {n0})", 1, Kind::kPlain, one_with_numbers(is_number, 1),
       [](A a, S s) -> Tensors { return {at::where(a[0].gt(0), a[0], s.numbers[0])}; }},
      {"to_default", "{0}.to(c10::get_default_dtype_as_scalartype())", 1, Kind::kPlain, one(is_any),
       [](A a, S) -> Tensors { return {a[0].to(c10::get_default_dtype_as_scalartype())}; }},
  };
}

// On tensors from outside the function's hooks are refused; a few of those are enough.
Make hooked() {
  return [](Chooser& choose, Statement& statement) {
    const bool anything = choose.chance(0.1);
    const int id =
        choose.variable([&](const at::Tensor& t) { return t.requires_grad() && (anything || !t.is_leaf()); });
    statement.args = {id};
    return id >= 0;
  };
}

}  // namespace

std::vector<Operator> complex_operators() {
  std::vector<Operator> all;
  for (const auto& rows : {complex_views(), complex_unary(), complex_several(), complex_in_place()})
    all.insert(all.end(), rows.begin(), rows.end());
  return all;
}

std::vector<Operator> default_dtype_operators() {
  std::vector<Operator> all = default_factories();
  const auto rows = whole_numbers();
  all.insert(all.end(), rows.begin(), rows.end());
  return all;
}

std::vector<Operator> hook_operators() {
  return {
      {"hook_triple", "{0}.register_hook([](at::Tensor g) { return g * 3; })", 8, Kind::kPlain, hooked(),
       [](A a, S) -> Tensors {
         a[0].register_hook([](const at::Tensor& g) { return g * 3; });
         return {};
       }},
      {"hook_shift", "{0}.register_hook([](at::Tensor g) { return g + 1; })", 5, Kind::kPlain, hooked(),
       [](A a, S) -> Tensors {
         a[0].register_hook([](const at::Tensor& g) { return g + 1; });
         return {};
       }},
      {"retain_grad", "{0}.retain_grad()", 5, Kind::kPlain, hooked(),
       [](A a, S) -> Tensors {
         a[0].retain_grad();
         return {};
       }},
  };
}

}  // namespace diptych::fuzz::detail
