// Operators element by element, and tensors made from nothing.
#include "fuzz/operators.h"

namespace diptych::fuzz::detail {
namespace {

using A = const Tensors&;
using S = const Statement&;

std::vector<Operator> unary() {
  return {
      {"sin", "{0}.sin()", 4, Kind::kPlain, one(is_float), [](A a, S) -> Tensors { return {a[0].sin()}; }},
      {"cos", "{0}.cos()", 3, Kind::kPlain, one(is_float), [](A a, S) -> Tensors { return {a[0].cos()}; }},
      {"tanh", "{0}.tanh()", 3, Kind::kPlain, one(is_float), [](A a, S) -> Tensors { return {a[0].tanh()}; }},
      {"sigmoid", "{0}.sigmoid()", 3, Kind::kPlain, one(is_float), [](A a, S) -> Tensors { return {a[0].sigmoid()}; }},
      {"exp", "{0}.clamp_max(2).exp()", 3, Kind::kPlain, one(is_float),
       [](A a, S) -> Tensors { return {a[0].clamp_max(2).exp()}; }},
      {"square", "{0}.pow(2)", 3, Kind::kPlain, one(is_float), [](A a, S) -> Tensors { return {a[0].pow(2)}; }},
      {"abs", "{0}.abs()", 2, Kind::kPlain, one(is_number), [](A a, S) -> Tensors { return {a[0].abs()}; }},
      {"neg", "{0}.neg()", 2, Kind::kPlain, one(is_number), [](A a, S) -> Tensors { return {a[0].neg()}; }},
      {"relu", "{0}.relu()", 4, Kind::kPlain, one(is_number), [](A a, S) -> Tensors { return {a[0].relu()}; }},
      {"gelu", "at::gelu({0})", 2, Kind::kPlain, one(is_float), [](A a, S) -> Tensors { return {at::gelu(a[0])}; }},
      {"silu", "at::silu({0})", 2, Kind::kPlain, one(is_float), [](A a, S) -> Tensors { return {at::silu(a[0])}; }},
      {"softplus", "at::softplus({0})", 1, Kind::kPlain, one(is_float),
       [](A a, S) -> Tensors { return {at::softplus(a[0])}; }},
      {"log", "{0}.abs().add(1).log()", 1, Kind::kPlain, one(is_float),
       [](A a, S) -> Tensors { return {a[0].abs().add(1).log()}; }},
      {"sqrt", "{0}.square().add(1).sqrt()", 1, Kind::kPlain, one(is_float),
       [](A a, S) -> Tensors { return {a[0].square().add(1).sqrt()}; }},
      {"sign", "{0}.sign()", 1, Kind::kPlain, one(is_number), [](A a, S) -> Tensors { return {a[0].sign()}; }},
      {"round", "{0}.mul(0.3).round()", 1, Kind::kPlain, one(is_float),
       [](A a, S) -> Tensors { return {a[0].mul(0.3).round()}; }},
      {"clone", "{0}.clone()", 3, Kind::kPlain, one(is_any), [](A a, S) -> Tensors { return {a[0].clone()}; }},
      {"detach", "{0}.detach()", 3, Kind::kPlain, one(is_any), [](A a, S) -> Tensors { return {a[0].detach()}; }},
      {"contiguous", "{0}.contiguous()", 2, Kind::kPlain, one(is_any),
       [](A a, S) -> Tensors { return {a[0].contiguous()}; }},
      {"to_double", "{0}.to(at::kDouble)", 2, Kind::kPlain, one(is_any),
       [](A a, S) -> Tensors { return {a[0].to(at::kDouble)}; }},
      {"to_float", "{0}.to(at::kFloat)", 2, Kind::kPlain, one(is_any),
       [](A a, S) -> Tensors { return {a[0].to(at::kFloat)}; }},
      {"to_long", "{0}.to(at::kLong)", 1, Kind::kPlain, one(is_any),
       [](A a, S) -> Tensors { return {a[0].to(at::kLong)}; }},
      {"ones_like", "at::ones_like({0})", 1, Kind::kPlain, one(is_any),
       [](A a, S) -> Tensors { return {at::ones_like(a[0])}; }},
      {"zeros_like", "at::zeros_like({0})", 1, Kind::kPlain, one(is_any),
       [](A a, S) -> Tensors { return {at::zeros_like(a[0])}; }},
      {"logical_not", "{0}.logical_not()", 1, Kind::kPlain, one(is_any),
       [](A a, S) -> Tensors { return {a[0].logical_not()}; }},
      {"isfinite", "{0}.isfinite()", 1, Kind::kPlain, one(is_any), [](A a, S) -> Tensors { return {a[0].isfinite()}; }},
      {"tril", "{0}.tril()", 1, Kind::kPlain, one(of_rank(is_float, 2)),
       [](A a, S) -> Tensors { return {a[0].tril()}; }},
  };
}

// A number that is not zero, and a whole one as often as not.
Make with_a_divisor() {
  return [](Chooser& choose, Statement& statement) {
    const int id = choose.variable(is_float);
    if (id < 0) return false;
    statement.args = {id};
    statement.numbers = {choose.one_of(std::vector<double>{2, 3, -2, 0.5, 1.5})};
    return true;
  };
}

// A tensor that the function makes of numbers, as a capture could keep it, in the shape of what there is.
Make literal() {
  return [](Chooser& choose, Statement& statement) {
    statement.numbers = {choose.number(), choose.number(), choose.number()};
    return true;
  };
}

std::vector<Operator> literals() {
  return {
      {"tensor_of_number", "torch::tensor({n0})", 1, Kind::kPlain, literal(),
       [](A, S s) -> Tensors { return {torch::tensor(static_cast<float>(s.numbers[0]))}; }},
      {"tensor_of_numbers", "torch::tensor({{n0}, {n1}, {n2}})", 2, Kind::kPlain, literal(),
       [](A, S s) -> Tensors {
         return {torch::tensor(
             {static_cast<float>(s.numbers[0]), static_cast<float>(s.numbers[1]), static_cast<float>(s.numbers[2])})};
       }},
      {"scalar_tensor", "at::scalar_tensor({n0})", 1, Kind::kPlain, literal(),
       [](A, S s) -> Tensors { return {at::scalar_tensor(s.numbers[0])}; }},
      {"leaf_made_inside", "torch::tensor({{n0}, {n1}, {n2}}).requires_grad_()", 1, Kind::kPlain, literal(),
       [](A, S s) -> Tensors {
         return {torch::tensor({static_cast<float>(s.numbers[0]), static_cast<float>(s.numbers[1]),
                                static_cast<float>(s.numbers[2])})
                     .requires_grad_()};
       }},
  };
}

std::vector<Operator> with_numbers() {
  return {
      {"add_number", "{0}.add({n0})", 4, Kind::kPlain, one_with_numbers(is_float, 1),
       [](A a, S s) -> Tensors { return {a[0].add(s.numbers[0])}; }},
      {"mul_number", "{0}.mul({n0})", 5, Kind::kPlain, one_with_numbers(is_float, 1),
       [](A a, S s) -> Tensors { return {a[0].mul(s.numbers[0])}; }},
      {"rsub_number", "at::rsub({0}, {n0})", 1, Kind::kPlain, one_with_numbers(is_float, 1),
       [](A a, S s) -> Tensors { return {at::rsub(a[0], s.numbers[0])}; }},
      {"floor_divide_number", "{0}.floor_divide({n0})", 2, Kind::kPlain, with_a_divisor(),
       [](A a, S s) -> Tensors { return {a[0].detach().mul(3).floor_divide(s.numbers[0])}; }},
      {"number_floor_divided", "at::floor_divide(wrapped({n0}), {0})", 1, Kind::kPlain, with_a_divisor(),
       [](A a, S s) -> Tensors {
         const at::Tensor number = c10::scalar_to_tensor(s.numbers[0] * 8);
         number.unsafeGetTensorImpl()->set_wrapped_number(true);
         return {at::floor_divide(number, a[0].detach().abs().add(1))};
       }},
      {"remainder_number", "{0}.remainder({n0})", 1, Kind::kPlain, with_a_divisor(),
       [](A a, S s) -> Tensors { return {a[0].mul(3).remainder(s.numbers[0])}; }},
      {"div_number", "{0}.div(4)", 1, Kind::kPlain, one(is_number), [](A a, S) -> Tensors { return {a[0].div(4)}; }},
      {"clamp", "{0}.clamp(-1, {n0})", 2, Kind::kPlain, one_with_numbers(is_float, 1),
       [](A a, S s) -> Tensors { return {a[0].clamp(-1, s.numbers[0])}; }},
      {"gt_number", "{0}.gt({n0})", 2, Kind::kPlain, one_with_numbers(is_number, 1),
       [](A a, S s) -> Tensors { return {a[0].gt(s.numbers[0])}; }},
      {"add_int", "{0}.add(2)", 1, Kind::kPlain, one(is_long), [](A a, S) -> Tensors { return {a[0].add(2)}; }},
      {"remainder", "{0}.remainder(3)", 1, Kind::kPlain, one(is_long),
       [](A a, S) -> Tensors { return {a[0].remainder(3)}; }},
      {"leaky_relu", "at::leaky_relu({0}, 0.1)", 1, Kind::kPlain, one(is_float),
       [](A a, S) -> Tensors { return {at::leaky_relu(a[0], 0.1)}; }},
  };
}

Make compared() { return two(is_number); }

Make three_floats() {
  return [](Chooser& choose, Statement& statement) {
    if (!onto_first(is_float)(choose, statement)) return false;
    const at::Tensor first = choose.tensor(statement.args[0]);
    statement.args.push_back(choose.variable([&](const at::Tensor& t) {
      return t.scalar_type() == first.scalar_type() && broadcasts(t.sizes(), first.sizes());
    }));
    const auto dtype = choose.tensor(statement.args[1]).scalar_type();
    return dtype == first.scalar_type();
  };
}

Make masked() {
  return [](Chooser& choose, Statement& statement) {
    const int a = choose.variable(is_float);
    if (a < 0) return false;
    const at::Tensor first = choose.tensor(a);
    const int mask =
        choose.variable([&](const at::Tensor& t) { return is_bool(t) && broadcasts(t.sizes(), first.sizes()); });
    const int other =
        choose.variable([&](const at::Tensor& t) { return is_float(t) && broadcasts(t.sizes(), first.sizes()); });
    statement.args = {a, mask, other};
    statement.numbers = {choose.number()};
    return mask >= 0 && other >= 0;
  };
}

std::vector<Operator> several() {
  return {
      {"add", "{0}.add({1})", 8, Kind::kPlain, two(is_number), [](A a, S) -> Tensors { return {a[0].add(a[1])}; }},
      {"sub", "{0}.sub({1})", 4, Kind::kPlain, two(is_number), [](A a, S) -> Tensors { return {a[0].sub(a[1])}; }},
      {"mul", "{0}.mul({1})", 8, Kind::kPlain, two(is_number), [](A a, S) -> Tensors { return {a[0].mul(a[1])}; }},
      {"div", "{0}.div({1}.square().add(1))", 2, Kind::kPlain, two(is_float),
       [](A a, S) -> Tensors { return {a[0].div(a[1].square().add(1))}; }},
      {"maximum", "at::maximum({0}, {1})", 2, Kind::kPlain, two(is_float),
       [](A a, S) -> Tensors { return {at::maximum(a[0], a[1])}; }},
      {"atan2", "at::atan2({0}, {1}.square().add(1))", 1, Kind::kPlain, two(is_float),
       [](A a, S) -> Tensors { return {at::atan2(a[0], a[1].square().add(1))}; }},
      {"lt", "{0}.lt({1})", 2, Kind::kPlain, compared(), [](A a, S) -> Tensors { return {a[0].lt(a[1])}; }},
      {"eq", "{0}.eq({1})", 1, Kind::kPlain, compared(), [](A a, S) -> Tensors { return {a[0].eq(a[1])}; }},
      {"logical_and", "{0}.logical_and({1})", 1, Kind::kPlain, two(is_bool),
       [](A a, S) -> Tensors { return {a[0].logical_and(a[1])}; }},
      {"bitwise_and", "{0}.bitwise_and({1})", 1, Kind::kPlain, two(is_long),
       [](A a, S) -> Tensors { return {a[0].bitwise_and(a[1])}; }},
      {"addcmul", "at::addcmul({0}, {1}, {2})", 2, Kind::kPlain, three_floats(),
       [](A a, S) -> Tensors { return {at::addcmul(a[0], a[1], a[2])}; }},
      {"lerp", "at::lerp({0}, {1}, {2})", 1, Kind::kPlain, three_floats(),
       [](A a, S) -> Tensors { return {at::lerp(a[0], a[1], a[2])}; }},
      {"where", "at::where({1}, {0}, {2})", 3, Kind::kPlain, masked(),
       [](A a, S) -> Tensors { return {at::where(a[1], a[0], a[2])}; }},
      {"masked_fill", "{0}.masked_fill({1}, {n0})", 2, Kind::kPlain, masked(),
       [](A a, S s) -> Tensors { return {a[0].masked_fill(a[1], s.numbers[0])}; }},
      {"mse_loss", "at::mse_loss({0}, {1})", 1, Kind::kPlain,
       [](Chooser& choose, Statement& statement) {
         const int a = choose.variable(is_float);
         if (a < 0) return false;
         const at::Tensor first = choose.tensor(a);
         statement.args = {a, choose.variable([&](const at::Tensor& t) {
                             return t.sizes() == first.sizes() && t.scalar_type() == first.scalar_type();
                           })};
         return first.numel() > 0;
       },
       [](A a, S) -> Tensors { return {at::mse_loss(a[0], a[1])}; }},
  };
}

std::vector<Operator> made_or_random() {
  const Make nothing = [](Chooser& choose, Statement& statement) {
    statement.ints = {choose.below(3) + 1, choose.below(4)};
    return true;
  };
  return {
      {"zeros", "torch::zeros({ints})", 1, Kind::kPlain, nothing,
       [](A, S s) -> Tensors { return {torch::zeros(s.ints)}; }},
      {"arange", "torch::arange({i1})", 1, Kind::kPlain, nothing,
       [](A, S s) -> Tensors { return {torch::arange(s.ints[1])}; }},
      {"randn", "torch::randn({ints}, torch::kDouble)", 1, Kind::kPlain, nothing,
       [](A, S s) -> Tensors { return {torch::randn(s.ints, torch::kDouble)}; }},
      {"full_leaf", "torch::full({ints}, 0.5).requires_grad_()", 1, Kind::kPlain, nothing,
       [](A, S s) -> Tensors { return {torch::full(s.ints, 0.5).requires_grad_()}; }},
      {"rand_like", "torch::rand_like({0})", 1, Kind::kPlain, one(is_float),
       [](A a, S) -> Tensors { return {torch::rand_like(a[0])}; }},
      {"dropout", "torch::dropout({0}, 0.5, true)", 3, Kind::kPlain, one(is_float),
       [](A a, S) -> Tensors { return {torch::dropout(a[0], 0.5, true)}; }},
      {"bernoulli", "torch::bernoulli({0}.sigmoid())", 1, Kind::kPlain, one(is_float),
       [](A a, S) -> Tensors { return {torch::bernoulli(a[0].sigmoid())}; }},
  };
}

}  // namespace

std::vector<Operator> pointwise_operators() {
  std::vector<Operator> all;
  for (const auto& rows : {unary(), with_numbers(), literals(), several(), made_or_random()})
    all.insert(all.end(), rows.begin(), rows.end());
  return all;
}

}  // namespace diptych::fuzz::detail
