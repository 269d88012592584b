// Loops in LLVM IR.
#pragma once
#include <functional>
#include <string>

#include "diptych/native/codegen/point_code.h"

namespace diptych::detail {

/// Writes `for (i64 i = begin; i < end; i += step) body(i)`. What the body writes is forgotten after it.
void write_loop(LlvmWriter& writer, PointCode& point, const std::string& begin, const std::string& end, int64_t step,
                const std::function<void(const std::string&)>& body);

/// Writes `if (condition) body()`.
void write_if(LlvmWriter& writer, PointCode& point, const std::string& condition, const std::function<void()>& body);

/// Writes where a block of `block` points that begins at `begin` ends: no later than the extent, whose name is `end`.
std::string write_block_end(LlvmWriter& writer, const std::string& begin, int64_t block, const SizeTerm& extent,
                            const std::string& end);

/// Whether a loop over an extent, in steps of so many points, leaves none over, whatever the symbols are.
inline bool is_multiple(const SizeTerm& extent, int64_t step) { return extent.factor % step == 0; }

/// A loop over points of one dim, several at once.
struct VectorLoop {
  int32_t dim = 0;
  int lanes = 1;
  std::string begin, end;
  bool is_whole = false;                        ///< whether none is ever left over: no end is a part of a vector
  std::vector<const KernelStore*> nontemporal;  ///< stores of the body that may be non-temporal
  bool can_shift = false;                       ///< whether the first vector may be a part of one
};

/// Visits the points [begin, end): `body` is written for whole vectors, once more if stores may be non-temporal, and
/// with a mask for what is left over. Requires: the function's argument %nontemporal if there are such stores.
void write_vector_loop(LlvmWriter& writer, PointCode& point, const VectorLoop& loop, const std::function<void()>& body);

}  // namespace diptych::detail
