// Linear algebra, Fourier transforms, special functions and bits of numbers, against eager.
#include "backends/xla/xla_check.h"

namespace diptych {
namespace {

using testing::kInf;
using testing::kNan;
using testing::list_of;
using testing::XlaCheck;

c10::IValue yes() { return true; }
c10::IValue no() { return false; }

/// Nodes of one program, which compiles sooner than one each.
class Program {
 public:
  Value input(const at::Tensor& tensor) { return check_.input(tensor); }
  void add(const std::string& op, std::vector<Operand> operands) {
    for (const Value value : check_.nodes(op, std::move(operands))) outputs_.push_back(value);
  }
  /// The same, and the result's bits are compared, for tolerances hide small numbers.
  void add_bits(const std::string& op, std::vector<Operand> operands, at::ScalarType bits) {
    const Value value = check_.nodes(op, std::move(operands)).at(0);
    outputs_.push_back(check_.node("aten.view.dtype", {value, c10::IValue(bits)}));
  }
  void expect_eager() { check_.expect_eager(outputs_); }

 private:
  XlaCheck check_;
  std::vector<Value> outputs_;
};

// Random triangular matrices whose inverses are small; what the other triangle holds must not be read.
at::Tensor triangle(at::IntArrayRef sizes, at::ScalarType dtype, bool is_upper) {
  const auto n = static_cast<double>(sizes.back());
  const at::Tensor x = at::randn(sizes, dtype) / n + 2 * at::eye(sizes.back(), at::TensorOptions(dtype));
  const at::Tensor wrong = at::full(sizes, kNan, dtype);
  return is_upper ? x.triu() + at::where(at::ones(sizes, at::kBool).tril(-1), wrong, at::zeros({}, dtype))
                  : x.tril() + at::where(at::ones(sizes, at::kBool).triu(1), wrong, at::zeros({}, dtype));
}

TEST(XlaAlgebra, TriangularSystems) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble}) {
    SCOPED_TRACE(c10::toString(dtype));
    Program program;
    for (const bool is_upper : {false, true}) {
      const Value a = program.input(triangle({2, 1, 5, 5}, dtype, is_upper));
      const Value b = program.input(at::randn({3, 5, 2}, dtype)), c = program.input(at::randn({2, 3, 4, 5}, dtype));
      for (const bool is_unit : {false, true}) {
        program.add("aten.linalg_solve_triangular", {a, b, c10::IValue(is_upper), yes(), c10::IValue(is_unit)});
        program.add("aten.linalg_solve_triangular", {a, c, c10::IValue(is_upper), no(), c10::IValue(is_unit)});
        for (const bool transposes : {false, true}) {
          program.add("aten.triangular_solve",
                      {b, a, c10::IValue(is_upper), c10::IValue(transposes), c10::IValue(is_unit)});
        }
      }
      const Value factor = program.input(triangle({2, 5, 5}, dtype, is_upper));
      program.add("aten.cholesky_solve", {program.input(at::randn({5, 3}, dtype)), factor, c10::IValue(is_upper)});
      if (!at::isComplexType(dtype)) program.add("aten.cholesky_inverse", {factor, c10::IValue(is_upper)});
    }
    program.add("aten.linalg_solve_triangular",
                {program.input(at::randn({0, 0}, dtype)), program.input(at::randn({0, 3}, dtype)), yes()});
    program.add("aten.linalg_solve_triangular",
                {program.input(triangle({3, 3}, dtype, false)), program.input(at::randn({3, 0}, dtype)), no()});
    program.expect_eager();
  }
}

// A pivot that is not a number, zero or infinite shows in its own row and those that depend on it.
TEST(XlaAlgebra, SpecialPivots) {
  Program program;
  for (const double pivot : {0.0, -0.0, kInf, kNan}) {
    for (const bool is_upper : {false, true}) {
      at::Tensor a = at::randn({4, 4});
      a = is_upper ? a.triu() : a.tril();
      a[2][2] = pivot;
      const Value b = program.input(at::randn({4, 1}));
      program.add("aten.linalg_solve_triangular", {program.input(a), b, c10::IValue(is_upper)});
    }
  }
  program.expect_eager();
}

TEST(XlaAlgebra, LargeTriangularSystems) {
  Program program;
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    for (const bool is_upper : {false, true}) {
      const Value a = program.input(triangle({300, 300}, dtype, is_upper)),
                  b = program.input(at::randn({300, 7}, dtype));
      program.add("aten.linalg_solve_triangular", {a, b, c10::IValue(is_upper)});
    }
  }
  program.expect_eager();
}

TEST(XlaAlgebra, LuFactors) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble}) {
    SCOPED_TRACE(c10::toString(dtype));
    Program program;
    for (const auto& sizes : {std::vector<int64_t>{2, 1, 5, 5}, {4, 6}, {3, 6, 4}, {1, 1}}) {
      const auto [factors, pivots, info] = at::linalg_lu_factor_ex(at::randn(sizes, dtype));
      const Value lu = program.input(factors), swaps = program.input(pivots);
      program.add("aten.lu_unpack", {lu, swaps});
      if (sizes.size() < 4) continue;
      const Value b = program.input(at::randn({3, 5, 2}, dtype)), c = program.input(at::randn({2, 3, 4, 5}, dtype));
      for (const bool is_adjoint : {false, true}) {
        program.add("aten.linalg_lu_solve", {lu, swaps, b, yes(), c10::IValue(is_adjoint)});
        program.add("aten.linalg_lu_solve", {lu, swaps, c, no(), c10::IValue(is_adjoint)});
      }
      program.add("aten.lu_unpack", {lu, swaps, yes(), no()});
      program.add("aten.lu_unpack", {lu, swaps, no(), yes()});
    }
    const Value none = program.input(at::zeros({0, 3}, dtype)), no_swap = program.input(at::zeros({0}, at::kInt));
    program.add("aten.lu_unpack", {none, no_swap});
    program.expect_eager();
  }
}

TEST(XlaAlgebra, Reflectors) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble}) {
    SCOPED_TRACE(c10::toString(dtype));
    Program program;
    for (const auto& sizes : {std::vector<int64_t>{2, 1, 5, 3}, {4, 4}, {3, 1}}) {
      const auto [stored, factors] = at::geqrf(at::randn(sizes, dtype));
      const Value v = program.input(stored), tau = program.input(factors);
      program.add("aten.linalg_householder_product", {v, tau});
      program.add("aten.linalg_householder_product", {v, program.input(factors.narrow(-1, 0, 1).contiguous())});
      auto tall = sizes, wide = sizes;
      tall.back() = 2;
      wide[wide.size() - 2] = 2, wide.back() = sizes[sizes.size() - 2];
      for (const bool transposes : {false, true}) {
        program.add("aten.ormqr", {v, tau, program.input(at::randn(tall, dtype)), yes(), c10::IValue(transposes)});
        program.add("aten.ormqr", {v, tau, program.input(at::randn(wide, dtype)), no(), c10::IValue(transposes)});
      }
    }
    program.expect_eager();
  }
}

TEST(XlaAlgebra, CrossProducts) {
  Program program;
  for (const auto dtype :
       {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kComplexFloat, at::kLong, at::kChar}) {
    // Eager rounds products of half types, which whole numbers of this size do not need.
    const bool is_plain = at::isComplexType(dtype) || dtype == at::kFloat || dtype == at::kDouble;
    const auto numbers = [&](at::IntArrayRef sizes) {
      return program.input(is_plain ? at::randn(sizes, dtype) : at::randint(-11, 11, sizes).to(dtype));
    };
    program.add("aten.linalg_cross", {numbers({2, 4, 3}), numbers({1, 4, 3})});
    program.add("aten.linalg_cross", {numbers({3, 4}), numbers({3, 1}), c10::IValue(int64_t{0})});
  }
  program.expect_eager();
}

TEST(XlaAlgebra, FourierTransforms) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    SCOPED_TRACE(c10::toString(dtype));
    const auto complex = at::toComplexType(dtype);
    Program program;
    const Value x = program.input(at::randn({3, 1, 4, 6, 5}, complex)),
                r = program.input(at::randn({3, 1, 4, 6, 5}, dtype));
    const Value y = program.input(at::randn({2, 8}, complex).t()), s = program.input(at::randn({8, 2}, dtype));
    for (int64_t mode = 0; mode < 3; ++mode) {
      for (const auto& dims : {std::vector<int64_t>{4}, {2, 4}, {3, 0}, {0, 1, 2, 3, 4}}) {
        for (const bool flag : {true, false}) {
          program.add("aten._fft_c2c", {x, list_of(dims), c10::IValue(mode), c10::IValue(flag)});
          program.add("aten._fft_r2c", {r, list_of(dims), c10::IValue(mode), c10::IValue(flag)});
        }
      }
      program.add("aten._fft_c2c", {y, list_of({0}), c10::IValue(mode), yes()});
      program.add("aten._fft_r2c", {s, list_of({0}), c10::IValue(mode), yes()});
    }
    program.expect_eager();
  }
}

// The inverse reads half of what is conjugate to itself; of the first and the middle number, the real part.
TEST(XlaAlgebra, FourierTransformsToRealNumbers) {
  for (const auto dtype : {at::kComplexFloat, at::kComplexDouble}) {
    SCOPED_TRACE(c10::toString(dtype));
    Program program;
    const Value x = program.input(at::randn({3, 1, 4, 6, 5}, dtype)), y = program.input(at::randn({5}, dtype));
    for (int64_t mode = 0; mode < 3; ++mode) {
      for (const int64_t last : {8, 9}) {
        program.add("aten._fft_c2r", {y, list_of({0}), c10::IValue(mode), c10::IValue(last)});
        program.add("aten._fft_c2r", {x, list_of({4}), c10::IValue(mode), c10::IValue(last)});
      }
    }
    program.expect_eager();
  }
}

TEST(XlaAlgebra, SpecialFunctions) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong}) {
    SCOPED_TRACE(c10::toString(dtype));
    Program program;
    const at::Tensor numbers = at::tensor(
        {0., -0., 0.3, 0.5, 1., 1.5, 2., 7.9, 8., 12., 40., -0.25, -2.5, -3., -11.75, kInf, -kInf, kNan}, at::kDouble);
    const Value x = program.input((at::isFloatingType(dtype) ? numbers : at::arange(-4, 12)).to(dtype));
    program.add("aten.i0", {x});
    program.add("aten.special_i0e", {x});
    for (const int64_t n : {1, 2, 3, 6}) program.add("aten.polygamma", {c10::IValue(n), x});
    program.add("aten.mvlgamma",
                {program.input(at::linspace(2.5, 9, 12, at::kDouble).to(dtype)), c10::IValue(int64_t{4})});
    if (at::isReducedFloatingType(dtype)) {
      program.expect_eager();
      continue;
    }
    const at::Tensor orders = at::tensor({0.5, 1., 2., 2.5, 3., 30., kInf, kNan}, at::kDouble);
    program.add(
        "aten.special_zeta",
        {program.input(at::isFloatingType(dtype) ? orders.to(dtype).unsqueeze(1) : at::arange(5).unsqueeze(1)), x});
    const at::Tensor parts = at::tensor(
        {0., 1e-30, 1e-14, 0.01, 0.1353, 0.1354, 0.5, 0.75, 0.8646, 0.8647, 0.999, 1., -0.1, 1.1, kNan}, at::kDouble);
    if (dtype != at::kDouble) {
      program.add("aten.special_erfcx", {x});
      program.add("aten.special_log_ndtr", {x});
      program.add("aten.special_log_ndtr",
                  {program.input(at::tensor({-300., -20., -1.01, 0.3, 9., kInf, -kInf, kNan}, at::kFloat))});
    }
    program.add("aten.special_ndtri", {program.input(parts.to(dtype == at::kLong ? at::kFloat : dtype))});
    program.expect_eager();
  }
}

TEST(XlaAlgebra, BitsOfNumbers) {
  Program program;
  const at::Tensor numbers =
      at::tensor({0., -0., 1., -1., 1.5, -3.25, 1e-40, -1e-45, 1e-310, 65504., 3e38, 1e300, kInf, -kInf}, at::kDouble);
  for (const auto& [dtype, bits] :
       {std::pair{at::kFloat, at::kInt}, {at::kDouble, at::kLong}, {at::kBFloat16, at::kShort}}) {
    const Value x = program.input(numbers.to(dtype)), y = program.input(numbers.to(dtype).unsqueeze(1));
    program.add_bits("aten.nextafter", {x, y}, bits);
    const Value nan = program.input(at::full({1}, kNan, dtype));
    program.add("aten.nextafter", {x, nan});
    program.add("aten.nextafter", {nan, y});
  }
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf}) {
    program.add("aten.frexp.Tensor", {program.input(numbers.to(dtype))});
  }
  program.expect_eager();
}

TEST(XlaAlgebra, CommonDivisors) {
  Program program;
  for (const auto dtype : {at::kLong, at::kInt, at::kShort, at::kChar, at::kByte}) {
    const at::Tensor x = at::tensor({0, 1, -1, 12, 18, -48, 100, 127, -128, 97}, at::kLong).to(dtype);
    const Value a = program.input(x), b = program.input(x.unsqueeze(1));
    program.add("aten.gcd", {a, b});
    program.add("aten.lcm", {a, b});
  }
  program.expect_eager();
}

TEST(XlaAlgebra, RowsReduced) {
  Program program;
  const Value index = program.input(at::tensor({2, 0, 2, 4}, at::kLong));
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    at::Tensor x = at::randn({3, 5}).to(dtype), source = at::randn({3, 4}).to(dtype);
    x[0][2] = kNan;
    source[1][1] = kNan;
    const Value a = program.input(x), b = program.input(source);
    for (const char* const name : {"prod", "mean", "amax", "amin"}) {
      for (const bool includes_self : {true, false}) {
        program.add("aten.index_reduce",
                    {a, c10::IValue(int64_t{1}), index, b, c10::IValue(name), c10::IValue(includes_self)});
      }
    }
  }
  for (const auto dtype : {at::kLong, at::kShort, at::kByte}) {
    const Value a = program.input(at::randint(0, 50, {3, 5}).sub(dtype == at::kByte ? 0 : 25).to(dtype));
    const Value b = program.input(at::randint(0, 50, {3, 4}).sub(dtype == at::kByte ? 0 : 25).to(dtype));
    for (const char* const name : {"prod", "mean", "amax", "amin"}) {
      for (const bool includes_self : {true, false}) {
        program.add("aten.index_reduce",
                    {a, c10::IValue(int64_t{1}), index, b, c10::IValue(name), c10::IValue(includes_self)});
      }
    }
  }
  const Value whole = program.input(at::arange(5)), zero = program.input(at::zeros({}, at::kLong));
  program.add("aten.index_reduce",
              {whole, c10::IValue(int64_t{0}), index, program.input(at::arange(2, 6)), c10::IValue("prod")});
  program.add("aten.index_reduce", {program.input(at::randn({})), c10::IValue(int64_t{0}), zero,
                                    program.input(at::randn({})), c10::IValue("amax")});
  program.expect_eager();
}

TEST(XlaAlgebra, Membership) {
  Program program;
  const Value x = program.input(at::arange(12).reshape({3, 4})),
              few = program.input(at::tensor({3, 7, 11, 3}, at::kLong));
  const Value f = program.input(at::tensor({0., -0., 1., kNan, kInf}, at::kFloat)),
              g = program.input(at::tensor({0., kNan, kInf}, at::kFloat));
  for (const bool inverts : {false, true}) {
    program.add("aten.isin.Tensor_Tensor", {x, few, no(), c10::IValue(inverts)});
    program.add("aten.isin.Tensor_Tensor", {f, g, no(), c10::IValue(inverts)});
    program.add("aten.isin.Tensor_Tensor", {f, program.input(at::zeros({0})), no(), c10::IValue(inverts)});
  }
  program.expect_eager();
}

TEST(XlaAlgebra, Ranges) {
  Program program;
  const Value start = program.input(at::full({}, -1.3)), end = program.input(at::full({}, 2.7, at::kDouble));
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    for (const int64_t steps : {0, 1, 6, 7}) {
      const Operand count = c10::IValue(steps), kind = c10::IValue(dtype), number = c10::IValue(at::Scalar(0.9));
      program.add("aten.linspace.Tensor_Tensor", {start, end, count, kind});
      program.add("aten.linspace.Tensor_Scalar", {start, number, count, kind});
      program.add("aten.linspace.Scalar_Tensor", {number, end, count, kind});
      for (const double base : {10.0, 2.5}) {
        program.add("aten.logspace", {number, c10::IValue(at::Scalar(-2)), count, c10::IValue(base), kind});
        program.add("aten.logspace.Tensor_Tensor", {start, end, count, c10::IValue(base), kind});
      }
    }
  }
  program.expect_eager();
}

TEST(XlaAlgebra, WholePowers) {
  Program program;
  for (const auto dtype : {at::kLong, at::kInt, at::kShort, at::kChar, at::kByte}) {
    const at::Tensor x = at::tensor({0, 1, -1, 2, -3, 7, 100, 127}, at::kLong).to(dtype);
    const at::Tensor n = at::tensor({0, 1, 2, 3, 9, 63, -1, -2, -3}, at::kLong).to(dtype).unsqueeze(1);
    program.add("aten.pow.Tensor_Tensor", {program.input(x), program.input(n)});
    program.add("aten.pow.Scalar", {c10::IValue(at::Scalar(3)), program.input(n)});
    program.add("aten.pow.Scalar", {c10::IValue(at::Scalar(1)), program.input(n)});
  }
  program.expect_eager();
}

TEST(XlaAlgebra, MaskedPositionsAndChunks) {
  Program program;
  const at::Tensor mask = at::tensor({1, 0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 1}, at::kLong).to(at::kBool).reshape({3, 4});
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kLong}) {
    const Value x = program.input((at::randn({3, 4}) * 9).to(dtype)), where = program.input(mask);
    program.add("aten.masked_scatter_backward", {x, where, list_of({2, 5})});
    program.add("aten.masked_scatter_backward", {x, program.input(mask[1]), list_of({6})});
    const Value rows = program.input(at::tensor({0, -1, 2, 9, 1, 1, -9, 0, 2, 2, 1, 1}, at::kLong).reshape({3, 4}));
    const ValueList indices{rows, Value{}};
    const Value table = program.input((at::randn({3, 4, 2}) * 9).to(dtype));
    const Value safe = program.input(mask.logical_and(at::tensor({1, 1, 0, 0}, at::kLong)).reshape({3, 4, 1, 1}));
    program.add("aten._unsafe_masked_index", {table, safe, indices, c10::IValue(at::Scalar(-3))});
    program.add("aten._unsafe_masked_index_put_accumulate",
                {table, safe, indices, program.input((at::randn({3, 4, 4, 2}) * 9).to(dtype))});
    const ValueList parts{program.input(at::randn({5, 3}).to(dtype)), program.input(at::randn({4, 2}).to(dtype))};
    program.add("aten._chunk_cat", {parts, c10::IValue(int64_t{0}), c10::IValue(int64_t{2})});
  }
  program.expect_eager();
}

}  // namespace
}  // namespace diptych
