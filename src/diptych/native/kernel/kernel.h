// The kernel IR: what one native kernel computes, as pure data flow over an iteration space.
//
//   kernel softmax(d0=s0, d1=1024) where s0=4096 {
//     x0 : f32
//     y0 : f32
//     %0 : f32 = load x0[1024*d0 + d1]
//     %1 : f32 = reduce max %0 over d1
//     %2 : f32 = sub %0, %1
//     %3 : f32 = exp %2
//     %4 : f32 = reduce sum %3 over d1
//     %5 : f32 = div %3, %4
//     store y0[1024*d0 + d1] = %5
//   }
//
// Note [A kernel is no loop nest]
// A kernel says what each value is at each point of its space, and not in what order points are visited: loops, tiles
// and threads are derived from it later. A value varies over a set of dims, its domain, which follows from its
// operands and its index map: %0 above varies over d0 and d1, and %1, which a reduction took d1 from, over d0 alone.
// Loads see the inputs as they were before the kernel began, and stores follow in their order after all values. Where
// an input and an output share memory, whoever makes code has to keep to that.
#pragma once
#include <c10/core/ScalarType.h>

#include <complex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "diptych/native/kernel/index_map.h"

namespace diptych::detail {

struct ScalarOp;   // scalar_op.h
struct Reduction;  // reduction.h

/// A number in the form that its dtype asks for: bools and integers, floats, complex numbers. A float is one that the
/// dtype has exactly. Equality is that of bits, but all NaN are one.
struct KernelNumber {
  std::variant<int64_t, double, std::complex<double>> number;
  bool operator==(const KernelNumber& other) const;
};

struct KernelConstant {
  KernelNumber number;
  bool operator==(const KernelConstant&) const = default;
};

/// The number of a map as i64: a position along a dim, a symbol, or what is made of them.
struct KernelIndex {
  IndexMap map;
  bool operator==(const KernelIndex&) const = default;
};

/// Where a masked load reads; elsewhere it is `other`, and the input is not touched.
struct LoadMask {
  int32_t condition = 0;
  int32_t other = 0;
  bool operator==(const LoadMask&) const = default;
};

struct KernelLoad {
  int32_t input = 0;
  IndexMap map;
  std::optional<LoadMask> mask;
  bool operator==(const KernelLoad&) const = default;
};

/// A row of the table of scalar operations, applied to earlier values.
struct KernelScalar {
  const ScalarOp* op = nullptr;
  std::vector<int32_t> operands;
  bool operator==(const KernelScalar&) const = default;
};

/// A row of the table of reductions: takes dims away. It runs through `over` whether its operand varies there or not,
/// so the sum of a constant over d0 is the constant times d0's extent. Sums and products accumulate in the dtype of
/// their value, to which the operand is converted first.
struct KernelReduce {
  const Reduction* reduction = nullptr;
  int32_t operand = 0;
  DimSet over;
  bool operator==(const KernelReduce&) const = default;
};

/// One value of the body. A value is named by its place in Kernel::values, and uses earlier ones only.
struct KernelValue {
  at::ScalarType dtype = at::kFloat;
  std::variant<KernelConstant, KernelIndex, KernelLoad, KernelScalar, KernelReduce> made_by;
  bool operator==(const KernelValue&) const = default;
};

/// Writes a value at each point of its domain and of the dims of its map, or adds it to what is there.
struct KernelStore {
  int32_t output = 0;
  IndexMap map;
  int32_t value = 0;
  bool is_add = false;
  bool operator==(const KernelStore&) const = default;
};

/// Symbols are the int64 parameters of a call (sizes, strides, offsets), s0 to the highest that occurs: kernels that
/// differ in sizes alone are one kernel. Hints are the values that they are likely to have; they say nothing of
/// results.
struct Kernel {
  std::string name;
  std::vector<SizeTerm> extents;  ///< of d0, d1, ...
  std::vector<int64_t> hints;     ///< of s0, s1, ...; symbols beyond them have none
  std::vector<at::ScalarType> inputs;
  std::vector<at::ScalarType> outputs;
  std::vector<KernelValue> values;
  std::vector<KernelStore> stores;
  bool operator==(const Kernel&) const = default;
};

/// The values that a value uses, in the order of its text: those in its map, then those of its mask.
std::vector<int32_t> values_used(const KernelValue& value);
/// The same of a store: those in its map, then the one that is stored.
std::vector<int32_t> values_used(const KernelStore& store);

/// The domain of each value. Requires: uses of earlier values only, and dims below kMaxDims.
std::vector<DimSet> value_domains(const Kernel& kernel);
/// The points at which a store writes.
DimSet store_domain(const KernelStore& store, const std::vector<DimSet>& domains);

/// How many symbols a call gives: one more than the highest that occurs.
int32_t symbol_count(const Kernel& kernel);

/// What a size is likely to be: its value at the hints, and a middling one for a symbol without hint.
int64_t hint_of(const Kernel& kernel, const SizeTerm& size);
/// The kernel at the sizes that the hints say, without symbols.
Kernel at_hints(const Kernel& kernel);

}  // namespace diptych::detail
