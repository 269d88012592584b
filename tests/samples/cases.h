// Calls of operators as rows: names, then operands by what they are for. A row stands for a sample of each dtype, whose
// numbers are those at which formulas go wrong, and for a call at any sizes, with plain numbers.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "diptych/native/kernel/dtypes.h"
#include "samples/sample.h"
#include "testing/graph_writer.h"

namespace diptych::testing {

/// A tensor operand by what it is for.
enum class OperandKind : uint8_t {
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
  kPlaces,   ///< indices of rows of a block or a plane, five
  kIndices,  ///< the same, of a slab's sizes
  kAdded,    ///< plain numbers of sizes [5, 5]: a row for each place
  kClasses,  ///< indices of columns of a plane, one for each row
  kRow,      ///< plain numbers, five
};
/// The sizes above as a function of three: blocks are of sizes [a, b, c].
struct CaseSizes {
  int64_t a = 3, half = 2, c = 5;
  int64_t b() const { return 2 * half; }
};
using Argument = std::variant<OperandKind, std::vector<OperandKind>, Operand>;

inline Argument number_of(const at::Scalar& value) { return Operand(c10::IValue(value)); }
inline Argument wrapped(const at::Scalar& value) { return Operand(WrappedNumber{value, value.type()}); }
inline Argument constant_of(c10::IValue value) { return Operand(std::move(value)); }
inline Argument list_of(std::vector<int64_t> values) { return Operand(c10::IValue(std::move(values))); }
inline Argument nothing() { return Operand(c10::IValue()); }

struct OperatorCase {
  std::string op;
  std::vector<Argument> arguments;
  /// The dtypes of the tensors for which eager is asked; complex ones always are.
  DtypeSet dtypes = kBools | kRealNumbers | kHalves;
};

/// A case as a sample of each dtype.
test::Samples samples_of(const std::vector<OperatorCase>& cases);
/// An operand of these sizes with plain numbers between -1 and 1 alone, those of rows along `a` and of columns along
/// `c`.
at::Tensor plain_sample(OperandKind kind, at::ScalarType dtype, const CaseSizes& sizes = {});

/// The cases of pointwise operators, of reductions, of operators that make or move elements, of those that read or
/// add at places which indices name, and of those that are taken apart into others.
std::vector<OperatorCase> pointwise_cases();
std::vector<OperatorCase> activation_cases();
std::vector<OperatorCase> reduction_cases();
std::vector<OperatorCase> moving_cases(const CaseSizes& sizes = {});
std::vector<OperatorCase> indexing_cases(const CaseSizes& sizes = {});
/// Those of operators that are about complex numbers; the others are called with such as well.
std::vector<OperatorCase> complex_cases();
std::vector<OperatorCase> composite_cases(const CaseSizes& sizes = {});

}  // namespace diptych::testing
