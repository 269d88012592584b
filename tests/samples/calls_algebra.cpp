// Linear algebra, Fourier transforms, special functions and bits of numbers, against eager.
#include <ATen/ATen.h>

#include "samples/families.h"

namespace diptych::test {
namespace algebra_calls {
namespace {

c10::IValue yes() { return true; }
c10::IValue no() { return false; }

// Random triangular matrices whose inverses are small; what the other triangle holds must not be read.
at::Tensor triangle(at::IntArrayRef sizes, at::ScalarType dtype, bool is_upper) {
  const auto n = static_cast<double>(sizes.back());
  const at::Tensor x = at::randn(sizes, dtype) / n + 2 * at::eye(sizes.back(), at::TensorOptions(dtype));
  const at::Tensor wrong = at::full(sizes, kNan, dtype);
  return is_upper ? x.triu() + at::where(at::ones(sizes, at::kBool).tril(-1), wrong, at::zeros({}, dtype))
                  : x.tril() + at::where(at::ones(sizes, at::kBool).triu(1), wrong, at::zeros({}, dtype));
}

void triangular_systems(Samples& out) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble}) {
    for (const bool is_upper : {false, true}) {
      const at::Tensor a = triangle({2, 1, 5, 5}, dtype, is_upper);
      const at::Tensor b = at::randn({3, 5, 2}, dtype), c = at::randn({2, 3, 4, 5}, dtype);
      for (const bool is_unit : {false, true}) {
        add(out, "aten.linalg_solve_triangular", {a, b, c10::IValue(is_upper), yes(), c10::IValue(is_unit)});
        add(out, "aten.linalg_solve_triangular", {a, c, c10::IValue(is_upper), no(), c10::IValue(is_unit)});
        for (const bool transposes : {false, true}) {
          add(out, "aten.triangular_solve",
              {b, a, c10::IValue(is_upper), c10::IValue(transposes), c10::IValue(is_unit)});
        }
      }
      const at::Tensor factor = triangle({2, 5, 5}, dtype, is_upper);
      add(out, "aten.cholesky_solve", {at::randn({5, 3}, dtype), factor, c10::IValue(is_upper)});
      if (!at::isComplexType(dtype)) add(out, "aten.cholesky_inverse", {factor, c10::IValue(is_upper)});
    }
    add(out, "aten.linalg_solve_triangular", {at::randn({0, 0}, dtype), at::randn({0, 3}, dtype), yes()});
    add(out, "aten.linalg_solve_triangular", {triangle({3, 3}, dtype, false), at::randn({3, 0}, dtype), no()});
  }
}

// A pivot that is not a number, zero or infinite shows in its own row and those that depend on it.
void special_pivots(Samples& out) {
  for (const double pivot : {0.0, -0.0, kInf, kNan}) {
    for (const bool is_upper : {false, true}) {
      at::Tensor a = at::randn({4, 4});
      a = is_upper ? a.triu() : a.tril();
      a[2][2] = pivot;
      const at::Tensor b = at::randn({4, 1});
      add(out, "aten.linalg_solve_triangular", {a, b, c10::IValue(is_upper)});
    }
  }
}

void large_triangular_systems(Samples& out) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    for (const bool is_upper : {false, true}) {
      const at::Tensor a = triangle({300, 300}, dtype, is_upper), b = at::randn({300, 7}, dtype);
      add(out, "aten.linalg_solve_triangular", {a, b, c10::IValue(is_upper)});
    }
  }
}

void lu_factors(Samples& out) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble}) {
    for (const auto& sizes : {std::vector<int64_t>{2, 1, 5, 5}, {4, 6}, {3, 6, 4}, {1, 1}}) {
      const auto [factors, pivots, info] = at::linalg_lu_factor_ex(at::randn(sizes, dtype));
      const at::Tensor lu = factors, swaps = pivots;
      add(out, "aten.lu_unpack", {lu, swaps});
      if (sizes.size() < 4) continue;
      const at::Tensor b = at::randn({3, 5, 2}, dtype), c = at::randn({2, 3, 4, 5}, dtype);
      for (const bool is_adjoint : {false, true}) {
        add(out, "aten.linalg_lu_solve", {lu, swaps, b, yes(), c10::IValue(is_adjoint)});
        add(out, "aten.linalg_lu_solve", {lu, swaps, c, no(), c10::IValue(is_adjoint)});
      }
      add(out, "aten.lu_unpack", {lu, swaps, yes(), no()});
      add(out, "aten.lu_unpack", {lu, swaps, no(), yes()});
    }
    const at::Tensor none = at::zeros({0, 3}, dtype), no_swap = at::zeros({0}, at::kInt);
    add(out, "aten.lu_unpack", {none, no_swap});
  }
}

void reflectors(Samples& out) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble}) {
    for (const auto& sizes : {std::vector<int64_t>{2, 1, 5, 3}, {4, 4}, {3, 1}}) {
      const auto [stored, factors] = at::geqrf(at::randn(sizes, dtype));
      const at::Tensor v = stored, tau = factors;
      add(out, "aten.linalg_householder_product", {v, tau});
      add(out, "aten.linalg_householder_product", {v, factors.narrow(-1, 0, 1).contiguous()});
      auto tall = sizes, wide = sizes;
      tall.back() = 2;
      wide[wide.size() - 2] = 2, wide.back() = sizes[sizes.size() - 2];
      for (const bool transposes : {false, true}) {
        add(out, "aten.ormqr", {v, tau, at::randn(tall, dtype), yes(), c10::IValue(transposes)});
        add(out, "aten.ormqr", {v, tau, at::randn(wide, dtype), no(), c10::IValue(transposes)});
      }
    }
  }
}

void cross_products(Samples& out) {
  for (const auto dtype :
       {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kComplexFloat, at::kLong, at::kChar}) {
    // Eager rounds products of half types, which whole numbers of this size do not need.
    const bool is_plain = at::isComplexType(dtype) || dtype == at::kFloat || dtype == at::kDouble;
    const auto numbers = [&](at::IntArrayRef sizes) {
      return is_plain ? at::randn(sizes, dtype) : at::randint(-11, 11, sizes).to(dtype);
    };
    add(out, "aten.linalg_cross", {numbers({2, 4, 3}), numbers({1, 4, 3})});
    add(out, "aten.linalg_cross", {numbers({3, 4}), numbers({3, 1}), c10::IValue(int64_t{0})});
  }
}

void fourier_transforms(Samples& out) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    const auto complex = at::toComplexType(dtype);
    const at::Tensor x = at::randn({3, 1, 4, 6, 5}, complex), r = at::randn({3, 1, 4, 6, 5}, dtype);
    const at::Tensor y = at::randn({2, 8}, complex).t(), s = at::randn({8, 2}, dtype);
    for (int64_t mode = 0; mode < 3; ++mode) {
      for (const auto& dims : {std::vector<int64_t>{4}, {2, 4}, {3, 0}, {0, 1, 2, 3, 4}}) {
        for (const bool flag : {true, false}) {
          add(out, "aten._fft_c2c", {x, ints(dims), c10::IValue(mode), c10::IValue(flag)});
          add(out, "aten._fft_r2c", {r, ints(dims), c10::IValue(mode), c10::IValue(flag)});
        }
      }
      add(out, "aten._fft_c2c", {y, ints({0}), c10::IValue(mode), yes()});
      add(out, "aten._fft_r2c", {s, ints({0}), c10::IValue(mode), yes()});
    }
  }
}

// The inverse reads half of what is conjugate to itself; of the first and the middle number, the real part.
void fourier_transforms_to_real_numbers(Samples& out) {
  for (const auto dtype : {at::kComplexFloat, at::kComplexDouble}) {
    const at::Tensor x = at::randn({3, 1, 4, 6, 5}, dtype), y = at::randn({5}, dtype);
    for (int64_t mode = 0; mode < 3; ++mode) {
      for (const int64_t last : {8, 9}) {
        add(out, "aten._fft_c2r", {y, ints({0}), c10::IValue(mode), c10::IValue(last)});
        add(out, "aten._fft_c2r", {x, ints({4}), c10::IValue(mode), c10::IValue(last)});
      }
    }
  }
}

void special_functions(Samples& out) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong}) {
    const at::Tensor numbers = at::tensor(
        {0., -0., 0.3, 0.5, 1., 1.5, 2., 7.9, 8., 12., 40., -0.25, -2.5, -3., -11.75, kInf, -kInf, kNan}, at::kDouble);
    const at::Tensor x = (at::isFloatingType(dtype) ? numbers : at::arange(-4, 12)).to(dtype);
    add(out, "aten.i0", {x});
    add(out, "aten.special_i0e", {x});
    for (const int64_t n : {1, 2, 3, 6}) add(out, "aten.polygamma", {c10::IValue(n), x});
    add(out, "aten.mvlgamma", {at::linspace(2.5, 9, 12, at::kDouble).to(dtype), c10::IValue(int64_t{4})});
    if (at::isReducedFloatingType(dtype)) {
      continue;
    }
    const at::Tensor orders = at::tensor({0.5, 1., 2., 2.5, 3., 30., kInf, kNan}, at::kDouble);
    add(out, "aten.special_zeta",
        {at::isFloatingType(dtype) ? orders.to(dtype).unsqueeze(1) : at::arange(5).unsqueeze(1), x});
    add(out, "aten.special_zeta.other_scalar", {x.abs().add(2), 1.5});
    add(out, "aten.special_zeta.self_scalar", {2.5, x});
    const at::Tensor parts = at::tensor(
        {0., 1e-30, 1e-14, 0.01, 0.1353, 0.1354, 0.5, 0.75, 0.8646, 0.8647, 0.999, 1., -0.1, 1.1, kNan}, at::kDouble);
    if (dtype != at::kDouble) {
      add(out, "aten.special_erfcx", {x});
      add(out, "aten.special_log_ndtr", {x});
      add(out, "aten.special_log_ndtr", {at::tensor({-300., -20., -1.01, 0.3, 9., kInf, -kInf, kNan}, at::kFloat)});
    }
    add(out, "aten.special_ndtri", {parts.to(dtype == at::kLong ? at::kFloat : dtype)});
  }
}

void bits_of_numbers(Samples& out) {
  const at::Tensor numbers =
      at::tensor({0., -0., 1., -1., 1.5, -3.25, 1e-40, -1e-45, 1e-310, 65504., 3e38, 1e300, kInf, -kInf}, at::kDouble);
  for (const auto& [dtype, bits] :
       {std::pair{at::kFloat, at::kInt}, {at::kDouble, at::kLong}, {at::kBFloat16, at::kShort}}) {
    const at::Tensor x = numbers.to(dtype), y = numbers.to(dtype).unsqueeze(1);
    add(out, "aten.nextafter", {x, y});
    const at::Tensor nan = at::full({1}, kNan, dtype);
    add(out, "aten.nextafter", {x, nan});
    add(out, "aten.nextafter", {nan, y});
  }
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf}) {
    add(out, "aten.frexp.Tensor", {numbers.to(dtype)});
  }
}

void common_divisors(Samples& out) {
  for (const auto dtype : {at::kLong, at::kInt, at::kShort, at::kChar, at::kByte}) {
    const at::Tensor x = at::tensor({0, 1, -1, 12, 18, -48, 100, 127, -128, 97}, at::kLong).to(dtype);
    const at::Tensor a = x, b = x.unsqueeze(1);
    add(out, "aten.gcd", {a, b});
    add(out, "aten.lcm", {a, b});
  }
}

void rows_reduced(Samples& out) {
  const at::Tensor index = at::tensor({2, 0, 2, 4}, at::kLong);
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    at::Tensor x = at::randn({3, 5}).to(dtype), source = at::randn({3, 4}).to(dtype);
    x[0][2] = kNan;
    source[1][1] = kNan;
    const at::Tensor a = x, b = source;
    for (const char* const name : {"prod", "mean", "amax", "amin"}) {
      for (const bool includes_self : {true, false}) {
        add(out, "aten.index_reduce",
            {a, c10::IValue(int64_t{1}), index, b, c10::IValue(name), c10::IValue(includes_self)});
      }
    }
  }
  for (const auto dtype : {at::kLong, at::kShort, at::kByte}) {
    const at::Tensor a = at::randint(0, 50, {3, 5}).sub(dtype == at::kByte ? 0 : 25).to(dtype);
    const at::Tensor b = at::randint(0, 50, {3, 4}).sub(dtype == at::kByte ? 0 : 25).to(dtype);
    for (const char* const name : {"prod", "mean", "amax", "amin"}) {
      for (const bool includes_self : {true, false}) {
        add(out, "aten.index_reduce",
            {a, c10::IValue(int64_t{1}), index, b, c10::IValue(name), c10::IValue(includes_self)});
      }
    }
  }
  const at::Tensor whole = at::arange(5), zero = at::zeros({}, at::kLong);
  add(out, "aten.index_reduce", {whole, c10::IValue(int64_t{0}), index, at::arange(2, 6), c10::IValue("prod")});
  add(out, "aten.index_reduce", {at::randn({}), c10::IValue(int64_t{0}), zero, at::randn({}), c10::IValue("amax")});
}

void membership(Samples& out) {
  const at::Tensor x = at::arange(12).reshape({3, 4}), few = at::tensor({3, 7, 11, 3}, at::kLong);
  const at::Tensor f = at::tensor({0., -0., 1., kNan, kInf}, at::kFloat), g = at::tensor({0., kNan, kInf}, at::kFloat);
  for (const bool inverts : {false, true}) {
    add(out, "aten.isin.Tensor_Tensor", {x, few, no(), c10::IValue(inverts)});
    add(out, "aten.isin.Tensor_Tensor", {f, g, no(), c10::IValue(inverts)});
    add(out, "aten.isin.Tensor_Tensor", {f, at::zeros({0}), no(), c10::IValue(inverts)});
  }
}

void ranges(Samples& out) {
  const at::Tensor start = at::full({}, -1.3), end = at::full({}, 2.7, at::kDouble);
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    for (const int64_t steps : {0, 1, 6, 7}) {
      const c10::IValue count = c10::IValue(steps), kind = c10::IValue(dtype), number = c10::IValue(at::Scalar(0.9));
      add(out, "aten.linspace.Tensor_Tensor", {start, end, count, kind});
      add(out, "aten.linspace.Tensor_Scalar", {start, number, count, kind});
      add(out, "aten.linspace.Scalar_Tensor", {number, end, count, kind});
      for (const double base : {10.0, 2.5}) {
        add(out, "aten.logspace", {number, c10::IValue(at::Scalar(-2)), count, c10::IValue(base), kind});
        add(out, "aten.logspace.Tensor_Tensor", {start, end, count, c10::IValue(base), kind});
      }
    }
  }
}

void whole_powers(Samples& out) {
  for (const auto dtype : {at::kLong, at::kInt, at::kShort, at::kChar, at::kByte}) {
    const at::Tensor x = at::tensor({0, 1, -1, 2, -3, 7, 100, 127}, at::kLong).to(dtype);
    const at::Tensor n = at::tensor({0, 1, 2, 3, 9, 63, -1, -2, -3}, at::kLong).to(dtype).unsqueeze(1);
    add(out, "aten.pow.Tensor_Tensor", {x, n});
    add(out, "aten.pow.Scalar", {c10::IValue(at::Scalar(3)), n});
    add(out, "aten.pow.Scalar", {c10::IValue(at::Scalar(1)), n});
  }
}

void masked_positions_and_chunks(Samples& out) {
  const at::Tensor mask = at::tensor({1, 0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 1}, at::kLong).to(at::kBool).reshape({3, 4});
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kLong}) {
    const at::Tensor x = (at::randn({3, 4}) * 9).to(dtype), where = mask;
    add(out, "aten.masked_scatter_backward", {x, where, ints({2, 5})});
    add(out, "aten.masked_scatter_backward", {x, mask[1], ints({6})});
    const at::Tensor rows = at::tensor({0, -1, 2, 9, 1, 1, -9, 0, 2, 2, 1, 1}, at::kLong).reshape({3, 4});
    const c10::IValue indices = optional_tensors({rows, at::Tensor()});
    const at::Tensor table = (at::randn({3, 4, 2}) * 9).to(dtype);
    const at::Tensor safe = mask.logical_and(at::tensor({1, 1, 0, 0}, at::kLong)).reshape({3, 4, 1, 1});
    add(out, "aten._unsafe_masked_index", {table, safe, indices, c10::IValue(at::Scalar(-3))});
    add(out, "aten._unsafe_masked_index_put_accumulate",
        {table, safe, indices, (at::randn({3, 4, 4, 2}) * 9).to(dtype)});
    const Tensors parts{at::randn({5, 3}).to(dtype), at::randn({4, 2}).to(dtype)};
    add(out, "aten._chunk_cat", {parts, c10::IValue(int64_t{0}), c10::IValue(int64_t{2})});
  }
}

}  // namespace
}  // namespace algebra_calls

Samples calls_algebra() {
  using namespace algebra_calls;
  Samples out;
  triangular_systems(out);
  special_pivots(out);
  large_triangular_systems(out);
  lu_factors(out);
  reflectors(out);
  cross_products(out);
  fourier_transforms(out);
  fourier_transforms_to_real_numbers(out);
  special_functions(out);
  bits_of_numbers(out);
  common_divisors(out);
  rows_reduced(out);
  membership(out);
  ranges(out);
  whole_powers(out);
  masked_positions_and_chunks(out);
  return out;
}

}  // namespace diptych::test
