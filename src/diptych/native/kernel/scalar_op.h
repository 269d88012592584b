// The scalar operations of kernels: one table, a row per operation.
//
// Note [Halves are storage]
// f16 and bf16 occur in loads, stores and casts alone, and arithmetic on them is f32: `cast` to f32 after the load, and
// `cast` back where ATen rounds, which is after each of its operators. Eager's mul and add of bf16 tensors is then
// load, cast, mul, cast to bf16, cast to f32, add, cast to bf16, store; whoever may keep f32 between leaves out the
// casts in the middle. The verifier refuses other operations on them.
//
// Note [Scalar operations are total]
// A kernel computes each value at each point, also where a select then takes another. So no operation fails: an
// integer divided by zero is 0, with the remainder 0; the smallest integer divided by -1 is itself; a shift by less
// than 0 or by the width and more shifts everything out; a float that an integer cannot hold becomes what x86 makes of
// it. Where eager raises an error instead, who builds the kernel has to check beside it.
//
// Note [Products may be added unrounded]
// Code may make one fma of a `mul` and the `add` or `sub` that takes it. Where the rounding matters, as in a difference
// of products that may be equal, the product is a `rounded_mul`.
#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "diptych/native/kernel/dtypes.h"

namespace diptych::detail {

/// How the dtype of a result follows from that of the operands.
enum class ResultRule : uint8_t {
  kSame,
  kBool,
  kReal,     ///< of a complex number its part's dtype, of others the same
  kComplex,  ///< c64 of f32, c128 of f64
  kAny,      ///< what the value says: a cast
};

struct ScalarOp {
  /// Reads the operands' elements and writes the result's.
  using Evaluate = void (*)(at::ScalarType operand, at::ScalarType result, const void* const* operands, void* to);

  std::string_view name;
  int arity = 1;
  DtypeSet operands = 0;       ///< the dtypes that operands may have; all operands have the same
  bool has_condition = false;  ///< the first operand is a b8 beside that
  ResultRule result = ResultRule::kSame;
  Evaluate evaluate = nullptr;
};

std::span<const ScalarOp> scalar_ops();
/// The row of this name; null if there is none.
const ScalarOp* find_scalar_op(std::string_view name);

/// What the result's dtype has to be; none if any will do.
std::optional<at::ScalarType> result_dtype(ResultRule rule, at::ScalarType operand);

/// Converts one element, as `cast` does; both dtypes may be any that a kernel stores.
void cast_element(at::ScalarType from_dtype, const void* from, at::ScalarType to_dtype, void* to);

}  // namespace diptych::detail
