// Complex numbers in machine code: every formula beside the reference and beside ATen, and every way to lie in memory.
#include <ATen/ops/arange.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/meshgrid.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>
#include <torch/types.h>

#include <functional>
#include <limits>

#include "backends/native/codegen_case.h"
#include "diptych/graph/tensor_meta.h"
#include "diptych/native/kernel/scalar_op.h"

namespace diptych {

using namespace detail;
namespace {

using testing::expect_code_agrees;
using testing::Tensors;

// A tensor of so many pairs, of numbers of any size.
at::Tensor numbers_of_all_sizes(int64_t count, at::ScalarType dtype, double range) {
  const auto part = c10::toRealValueType(dtype);
  const auto number = [&] {
    const at::Tensor size = at::rand({count}, at::kDouble).sub(0.5).mul(2 * range).exp();
    return at::randn({count}, at::kDouble).mul(size).to(part);
  };
  return at::complex(number(), number());
}

// All pairs of numbers at which formulas go wrong.
template <class T>
at::Tensor corners() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> numbers = {
      0, 1, 0.5, 2, 3, 20.5, 1e-3F, Limits::denorm_min(), Limits::min(), Limits::max() / 2, Limits::infinity()};
  const size_t count = numbers.size();
  for (size_t i = 0; i < count; ++i) numbers.push_back(-numbers[i]);
  numbers.push_back(Limits::quiet_NaN());
  const auto all = at::meshgrid({at::tensor(numbers), at::tensor(numbers)}, "ij");
  return at::complex(all[0].flatten().contiguous(), all[1].flatten().contiguous());
}

at::Tensor run_op(const std::string& op, const Tensors& operands, at::ScalarType result) {
  std::string buffers, loads, list;
  for (size_t i = 0; i < operands.size(); ++i) {
    const auto dtype = dtype_name(operands[i].scalar_type());
    buffers += fmt::format("x{} : {}\n", i, dtype);
    loads += fmt::format("%{} : {} = load x{}[d0]\n", i, dtype, i);
    list += fmt::format("{}%{}", i > 0 ? ", " : "", i);
  }
  const int64_t count = operands[0].numel();
  const Kernel kernel =
      parse_kernel(fmt::format("kernel op(d0={}) {{\n{}y0 : {}\n{}%9 : {} = {} {}\nstore y0[d0] = %9\n}}", count,
                               buffers, dtype_name(result), loads, dtype_name(result), op, list));
  EXPECT_EQ(codegen_problem(kernel).value_or(""), "") << op;
  const at::Tensor made = at::empty({count}, result);
  std::vector<void*> from, to{made.data_ptr()};
  for (const at::Tensor& operand : operands) from.push_back(operand.data_ptr());
  compile_kernel(kernel)->run(from.data(), to.data(), {});
  return made;
}

using AtenFunction = std::function<at::Tensor(const Tensors&)>;
struct Case {
  std::string op;
  int arity;
  AtenFunction function;
  double range = 1;  // of random numbers, as an exponent of e
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"mul", 2, [](const Tensors& x) { return x[0] * x[1]; }, 10},
      {"div", 2, [](const Tensors& x) { return x[0] / x[1]; }, 10},
      {"abs", 1, [](const Tensors& x) { return x[0].abs(); }, 80},
      {"sign", 1, [](const Tensors& x) { return x[0].sgn(); }, 80},
      {"sqrt", 1, [](const Tensors& x) { return x[0].sqrt(); }, 80},
      {"rsqrt", 1, [](const Tensors& x) { return x[0].rsqrt(); }, 30},
      {"exp", 1, [](const Tensors& x) { return x[0].exp(); }, 3},
      {"log", 1, [](const Tensors& x) { return x[0].log(); }, 80},
      {"log2", 1, [](const Tensors& x) { return x[0].log2(); }, 1},
      {"log10", 1, [](const Tensors& x) { return x[0].log10(); }, 1},
      {"sin", 1, [](const Tensors& x) { return x[0].sin(); }, 3},
      {"cos", 1, [](const Tensors& x) { return x[0].cos(); }, 3},
      {"tan", 1, [](const Tensors& x) { return x[0].tan(); }, 2},
      {"sinh", 1, [](const Tensors& x) { return x[0].sinh(); }, 3},
      {"cosh", 1, [](const Tensors& x) { return x[0].cosh(); }, 3},
      {"tanh", 1, [](const Tensors& x) { return x[0].tanh(); }, 2},
      {"pow", 2, [](const Tensors& x) { return x[0].pow(x[1]); }, 1},
  };
  return all;
}

at::Tensor parts_of(const at::Tensor& x) { return x.is_complex() ? at::view_as_real(x) : x.unsqueeze(-1); }

// The largest error of all, relative to each exact number's size.
double error_of(const at::Tensor& got, const at::Tensor& exact) {
  const auto wide = got.is_complex() ? at::kComplexDouble : at::kDouble;
  const at::Tensor error = (got.to(wide) - exact).abs() / exact.abs();
  return at::where(error.isfinite(), error, 0).max().item<double>();
}

TEST(ComplexCode, IsAsExactAsAten) {
  at::manual_seed(3);
  for (const Case& row : cases()) {
    Tensors operands;
    for (int i = 0; i < row.arity; ++i) operands.push_back(numbers_of_all_sizes(40000, at::kComplexFloat, row.range));
    // Near the unit circle logarithms are small.
    if (row.op == "log") operands[0].slice(0, 0, 20000).div_(operands[0].slice(0, 0, 20000).abs());
    Tensors wide;
    for (const at::Tensor& operand : operands) wide.push_back(operand.to(at::kComplexDouble));
    const at::Tensor exact = row.function(wide), eager = row.function(operands);
    const double own = error_of(run_op(row.op, operands, eager.scalar_type()), exact), its = error_of(eager, exact);
    EXPECT_LE(own, 2 * its) << row.op << ": " << own << ", eager's " << its;
    RecordProperty(row.op, fmt::format("{:.2g} / {:.2g}", own, its));
  }
}

TEST(ComplexCode, AgreesWithAtenInDouble) {
  at::manual_seed(4);
  for (const Case& row : cases()) {
    Tensors operands;
    for (int i = 0; i < row.arity; ++i)
      operands.push_back(numbers_of_all_sizes(2003, at::kComplexDouble, std::min(row.range, 10.0)));
    const at::Tensor eager = row.function(operands);
    EXPECT_LE(error_of(run_op(row.op, operands, eager.scalar_type()), eager), 1e-13) << row.op;
  }
}

// Where the C library and ATen's loops have a number, the kernel has it; at infinities and NaN the parts that are
// numbers in eager are the same ones here. What is NaN in eager may be better here: eager's products do not look for
// infinities, and the C library's do.
template <class T>
void expect_corners(double tolerance) {
  const at::Tensor all = corners<T>();
  for (const Case& row : cases()) {
    if (row.op == "pow") continue;  // e to the power of a product, of which each library rounds another one
    Tensors operands{all};
    if (row.arity == 2) operands.push_back(all.roll({137}, {0}));
    const at::Tensor eager = row.function(operands), made = run_op(row.op, operands, eager.scalar_type());
    const at::Tensor expected = parts_of(eager).to(at::kDouble), got = parts_of(made).to(at::kDouble);
    const at::Tensor size = eager.abs().to(at::kDouble).unsqueeze(-1);
    const double least = std::numeric_limits<T>::denorm_min() * 4.0;
    const at::Tensor is_near =
        (got - expected).abs() <= at::where(size.isfinite(), size, expected.abs()) * tolerance + least;
    const at::Tensor is_right = is_near | got.eq(expected) | expected.isnan();
    const at::Tensor wrong = is_right.all(-1).logical_not().nonzero().flatten();
    for (int64_t i = 0; i < std::min<int64_t>(wrong.numel(), 6); ++i) {
      const int64_t at = wrong[i].item<int64_t>();
      const auto text = [&](const at::Tensor& of) {
        const at::Tensor parts = parts_of(of)[at];
        return fmt::format("{} {}", parts[0].item<double>(), parts[-1].item<double>());
      };
      ADD_FAILURE() << row.op << " of " << text(operands[0]) << (row.arity == 2 ? " and " + text(operands[1]) : "")
                    << " is " << text(made) << ", expected " << text(eager) << " (" << wrong.numel() << ")";
    }
  }
}

TEST(ComplexCode, HasAtensNumbersAtCornersInFloat) { expect_corners<float>(1e-6); }
TEST(ComplexCode, HasAtensNumbersAtCornersInDouble) { expect_corners<double>(1e-14); }

TEST(ComplexCode, EqualProductsCancel) {
  const at::Tensor x = at::randn({1000}, at::kComplexFloat);
  const at::Tensor square = run_op("mul", {x, x.conj_physical()}, at::kComplexFloat);
  EXPECT_EQ(at::imag(square).abs().max().item<float>(), 0);
}

TEST(ComplexCode, ReadsAndWritesPartsOfAllLayouts) {
  at::manual_seed(5);
  for (const char* map : {"5*d0 + d1", "d0 + 37*d1", "10*d0 + 2*d1 + 3", "d1", "3*d0", "7", "200 + -5*d0 + -1*d1"}) {
    for (const char* dtype : {"c64", "c128"}) {
      const auto text = fmt::format(R"(kernel parts(d0=37, d1=5) {{
        x0 : {0}
        x1 : {0}
        y0 : {0}
        y1 : {0}
        y2 : {1}
        %0 : {0} = load x0[{2}]
        %1 : {0} = load x1[5*d0 + d1]
        %2 : {0} = mul %0, %1
        %3 : {1} = abs %2
        %4 : {0} = conj %2
        store y0[5*d0 + d1] = %2
        store y1[37*d1 + d0] = %4
        store y2[5*d0 + d1] = %3
      }})",
                                    dtype, std::string(dtype) == "c64" ? "f32" : "f64", map);
      const auto scalar = std::string(dtype) == "c64" ? at::kComplexFloat : at::kComplexDouble;
      expect_code_agrees(text, {at::randn({400}, scalar), at::randn({185}, scalar)}, {185, 185, 185});
    }
  }
}

TEST(ComplexCode, SumsPartsAndUsesSumsAgain) {
  at::manual_seed(6);
  for (const int extent : {5, 64, 3000}) {
    expect_code_agrees(fmt::format(R"(kernel sums(d0=17, d1={0}) {{
      x0 : c64
      y0 : c64
      y1 : c64
      y2 : c64
      %0 : c64 = load x0[{0}*d0 + d1]
      %1 : c64 = reduce sum %0 over d1
      %2 : c64 = reduce sum %0 over d0
      %3 : c64 = sub %0, %1
      store y0[d0] = %1
      store y1[{0}*d0 + d1] = %3
      store y2[d1] = %2
    }})",
                                   extent),
                       {at::randn({17 * extent}, at::kComplexFloat)}, {17, 17 * extent, extent});
  }
}

TEST(ComplexCode, TakesMasksIndicesAndSymbols) {
  at::manual_seed(7);
  const Kernel kernel = parse_kernel(R"(kernel masked(d0=s0, d1=s1) where s0=40, s1=9 {
    x0 : c64
    x1 : i64
    y0 : c64
    y1 : c64
    y2 : i64
    %0 : i64 = load x1[d0]
    %1 : c64 = constant (1.5, -2)
    %2 : i64 = index d1
    %3 : i64 = constant 4
    %4 : b8 = lt %2, %3
    %5 : c64 = load x0[s1*%0 + d1] if %4 else %1
    %6 : c64 = cast %0
    %7 : c64 = mul %5, %6
    %8 : b8 = ne %5, %7
    %9 : c64 = select %8, %7, %1
    %10 : i64 = cast %9
    store y0[s1*d0 + d1] = %9
    store y1[s1*d0 + d1] = %5
    store y2[s1*d0 + d1] = %10
  })");
  for (const int64_t rows : {1, 40}) {
    for (const int64_t columns : {1, 9, 33}) {
      const at::Tensor places = at::arange(rows, at::kLong).mul(7).remainder(rows);
      expect_code_agrees(kernel, {at::randn({rows * columns}, at::kComplexFloat), places},
                         {rows * columns, rows * columns, rows * columns}, {rows, columns});
    }
  }
}

TEST(ComplexCode, SaysWhatHasNoFormula) {
  const Kernel kernel = parse_kernel(
      "kernel none(d0=4) {\nx0 : c64\ny0 : c64\n%0 : c64 = load x0[d0]\n%1 : c64 = asin %0\nstore y0[d0] = %1\n}");
  EXPECT_EQ(codegen_problem(kernel).value_or(""), "the operation asin on c64");
  const Kernel product = parse_kernel(
      "kernel none(d0=4) {\nx0 : c64\ny0 : c64\n%0 : c64 = load x0[d0]\n%1 : c64 = reduce prod %0 over d0\n"
      "store y0[0] = %1\n}");
  EXPECT_EQ(codegen_problem(product).value_or(""), "the reduction prod of complex numbers");
}

// A result may lie where an input lies.
TEST(ComplexCode, OverwritesAnInput) {
  const Kernel kernel = parse_kernel(
      "kernel swap(d0=1003) {\nx0 : c64\ny0 : c64\n%0 : c64 = load x0[d0]\n%1 : f32 = real %0\n%2 : f32 = imag %0\n"
      "%3 : c64 = complex %2, %1\nstore y0[d0] = %3\n}");
  const at::Tensor x = at::randn({1003}, at::kComplexFloat), expected = at::complex(at::imag(x), at::real(x)).clone();
  std::vector<void*> memory{x.data_ptr()};
  compile_kernel(kernel)->run(memory.data(), memory.data(), {});
  EXPECT_TRUE(x.equal(expected));
}

}  // namespace
}  // namespace diptych
