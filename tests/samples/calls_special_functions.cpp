// Bessel's and Airy's functions and orthogonal polynomials, against eager.
#include <ATen/ATen.h>

#include "samples/families.h"

namespace diptych::test {
namespace special_functions_calls {
namespace {

const char* const kBesselOperators[] = {
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "spherical_bessel_j0",
    "airy_ai",
};

void bessel(Samples& out) {
  const at::Tensor numbers =
      at::tensor({0., -0., 1e-6, 0.3, 0.5,  1.,   1.9,  2.,   2.05, 2.1, 3.7,  4.9,  5.,    5.1, 7.9,
                  8., 8.4, 12.,  40., 104., -0.2, -1.7, -2.1, -3.,  -6., -20., kInf, -kInf, kNan},
                 at::kDouble);
  for (const auto dtype : {at::kFloat, at::kDouble, at::kLong}) {
    const at::Tensor x = (at::isFloatingType(dtype) ? numbers : at::arange(-9, 13)).to(dtype);
    for (const char* const op : kBesselOperators) add(out, std::string("aten.special_") + op, {x});
  }
}

const char* const kPolynomialOperators[] = {
    "chebyshev_polynomial_t",         "chebyshev_polynomial_u",         "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",         "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v", "shifted_chebyshev_polynomial_w", "hermite_polynomial_h",
    "hermite_polynomial_he",          "laguerre_polynomial_l",          "legendre_polynomial_p",
};

// Of NaN most of eager's polynomials are what memory held.
void orthogonal_polynomials(Samples& out) {
  const at::Tensor numbers = at::tensor({-2.5, -1., -0.75, 0., 0.25, 0.5, 0.875, 1., 1.5, kInf}, at::kDouble);
  const at::Tensor degrees = at::tensor({-1, 0, 1, 2, 3, 4, 6, 7, 9}, at::kLong).unsqueeze(1);
  for (const auto dtype : {at::kFloat, at::kDouble, at::kLong}) {
    const at::Tensor x = (at::isFloatingType(dtype) ? numbers : at::arange(-3, 4)).to(dtype);
    const at::Tensor n = degrees.to(dtype);
    for (const char* const name : kPolynomialOperators) {
      const std::string op = std::string("aten.special_") + name;
      add(out, op, {x, n});
      add(out, op + ".n_scalar", {x, c10::IValue(at::Scalar(5))});
      add(out, op + ".x_scalar", {c10::IValue(at::Scalar(0.4)), n});
    }
  }
}

// Degrees of a half are rounded towards zero, and those beyond a bound are NaN.
void unusual_degrees(Samples& out) {
  const at::Tensor x = at::tensor({0.5F, 0.5F, 0.5F, 0.5F}), n = at::tensor({2.5F, 129.F, -0.5F, 128.F});
  for (const char* const op : {"hermite_polynomial_h", "hermite_polynomial_he"}) {
    add(out, std::string("aten.special_") + op, {x, n});
  }
  add(out, "aten.special_legendre_polynomial_p", {x, n});
}

}  // namespace
}  // namespace special_functions_calls

Samples calls_special_functions() {
  using namespace special_functions_calls;
  Samples out;
  bessel(out);
  orthogonal_polynomials(out);
  unusual_degrees(out);
  return out;
}

}  // namespace diptych::test
