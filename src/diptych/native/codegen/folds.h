// The reductions that code is made of, as a first value and an operation on two.
#pragma once
#include <string>

#include "diptych/native/kernel/kernel.h"
#include "diptych/native/scalar/llvm_writer.h"

namespace diptych::detail {

/// What a reduction of no elements is, as LLVM reads it, for a scalar.
std::string first_of(const Reduction& reduction, at::ScalarType dtype);

/// Two partial results as one; both have so many lanes.
std::string write_fold(LlvmWriter& writer, const Reduction& reduction, at::ScalarType dtype, const std::string& a,
                       const std::string& b, int lanes);

/// The lanes of a vector as one scalar, halves of it folded until one lane is left.
std::string write_fold_of_lanes(LlvmWriter& writer, const Reduction& reduction, at::ScalarType dtype,
                                const std::string& vector, int lanes);

/// The position of an extreme element beside the element itself.
struct Extreme {
  std::string element, position;  ///< position: i64
};

/// Which of two is more extreme; of equals the one at the smaller position, of NaNs too, which are beyond all others.
/// `reduction` is argmin or argmax.
Extreme write_more_extreme(LlvmWriter& writer, const Reduction& reduction, at::ScalarType dtype, const Extreme& a,
                           const Extreme& b, int lanes);

}  // namespace diptych::detail
