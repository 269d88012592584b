// Scalar operations of kernels as LLVM IR, for scalars and for vectors.
#pragma once
#include <string>
#include <vector>

#include "diptych/native/kernel/kernel.h"
#include "diptych/native/scalar/llvm_writer.h"

namespace diptych::detail {

/// Whether write_scalar_op() takes an operation on operands of this dtype, for this target.
bool has_scalar_code(const ScalarOp& op, at::ScalarType operand, const CodeTarget& target);

/// Whether an operation costs many times an addition, so that its result is better kept than computed again.
bool is_expensive(const ScalarOp& op);

/// Whether its code is a call of a function of another library.
bool is_call(const ScalarOp& op, at::ScalarType operand);

/// One operation: all operands have the same number of lanes (0 for scalars), as has the result.
struct ScalarCall {
  const ScalarOp* op = nullptr;
  at::ScalarType operand = at::kFloat;  ///< the dtype of the operands but for a condition
  at::ScalarType result = at::kFloat;
  std::vector<std::string> operands;  ///< names
  int lanes = 0;
};

/// Writes the operation and returns the name of its result. Floats follow IEEE 754, but products may be added without
/// being rounded (contract). Functions are SLEEF's, with an error of at most one unit in the last place, as in ATen's
/// vectorized kernels. Requires: has_scalar_code().
std::string write_scalar_op(LlvmWriter& writer, const ScalarCall& call);

/// A constant as LLVM reads it, for a scalar.
std::string constant_text(const KernelNumber& number, at::ScalarType dtype);

}  // namespace diptych::detail
