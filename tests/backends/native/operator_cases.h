// Calls of every operator that kernels have, as data.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "diptych/backends/native/kernel/dtypes.h"
#include "testing/graph_writer.h"

namespace diptych::testing {

/// A tensor operand by what it is for.
enum class Sample : uint8_t {
  kRows,     ///< numbers at which formulas go wrong, along the first of two dims
  kColumns,  ///< the same along the second, so that all pairs meet
  kTurned,   ///< the same along the first, in another order
  kMask,     ///< bools along the second dim
  kShare,    ///< numbers from 0 to 1, along the first dim
  kBlock,    ///< plain numbers of sizes [3, 4, 5]
  kBlock2,   ///< others of the same sizes
  kSpecial,  ///< numbers with NaN, infinities and equal ones, of sizes [4, 6]
  kSlab,     ///< plain numbers of sizes [3, 2, 5]
  kPlane,    ///< plain numbers of sizes [3, 5]
  kScalar,   ///< a tensor without dims
};
using Argument = std::variant<Sample, std::vector<Sample>, Operand>;

inline Argument number_of(const at::Scalar& value) { return Operand(c10::IValue(value)); }
inline Argument wrapped(const at::Scalar& value) { return Operand(WrappedNumber{value, value.type()}); }
inline Argument constant_of(c10::IValue value) { return Operand(std::move(value)); }
inline Argument list_of(std::vector<int64_t> values) { return Operand(c10::IValue(std::move(values))); }
inline Argument nothing() { return Operand(c10::IValue()); }

struct OperatorCase {
  std::string op;
  std::vector<Argument> arguments;
  /// The dtypes of the tensors for which there is a kernel wherever eager has a result.
  DtypeSet lowered = kBools | kRealNumbers | kHalves;
  DtypeSet tried = kBools | kRealNumbers | kHalves;  ///< the dtypes for which eager is asked
};

inline at::Tensor sample(Sample kind, at::ScalarType dtype) {
  const auto plain = [&](at::IntArrayRef sizes, double shift) {
    const at::Tensor numbers = at::arange(c10::multiply_integers(sizes), at::kDouble).mul(0.37).add(shift).cos();
    return (at::isFloatingType(dtype) ? numbers : numbers.mul(9).round().abs()).reshape(sizes).to(dtype);
  };
  const auto specials = [&] {
    constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
    if (!at::isFloatingType(dtype))
      return at::tensor({0, 1, 2, 3, 7, 100, 5, 250, -1, -7, -100, 12}, at::kLong).to(dtype);
    return at::tensor({0., -0.,   1.,    -1.,  0.5, -0.5, 2.5,  -2.5,  1.5,  -3.5,  3.,  -3.,
                       6., 0.001, -0.25, 0.75, 7.,  40.,  -40., 1e-41, kInf, -kInf, kNan},
                      at::kDouble)
        .to(dtype);
  };
  const at::Tensor along = specials();
  switch (kind) {
    case Sample::kRows:
      return along.unsqueeze(1);
    case Sample::kColumns:
      return along.unsqueeze(0);
    case Sample::kTurned:
      return along.roll(5).unsqueeze(1);
    case Sample::kMask:
      return along.gt(0).unsqueeze(0);
    case Sample::kShare:
      return at::isFloatingType(dtype) ? plain({along.size(0), 1}, 0).abs() : plain({along.size(0), 1}, 0);
    case Sample::kBlock:
      return plain({3, 4, 5}, 0);
    case Sample::kBlock2:
      return plain({3, 4, 5}, 1);
    case Sample::kSpecial:
      return at::cat({along, along.flip(0)}).slice(0, 0, 24).reshape({4, 6});
    case Sample::kSlab:
      return plain({3, 2, 5}, 2);
    case Sample::kPlane:
      return plain({3, 5}, 2);
    case Sample::kScalar:
      return plain({}, 1);
  }
  return {};
}

/// The cases of pointwise operators, of reductions, and of operators that make or move elements.
std::vector<OperatorCase> pointwise_cases();
std::vector<OperatorCase> activation_cases();
std::vector<OperatorCase> reduction_cases();
std::vector<OperatorCase> moving_cases();

}  // namespace diptych::testing
