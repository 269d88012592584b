// Loops in LLVM IR.
#pragma once
#include <functional>
#include <string>

#include "diptych/backends/native/codegen/point_code.h"

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

/// Visits the points [begin, end) of `dim`, `lanes` at once: `body` is written once for whole vectors and, unless
/// `is_whole` says that none is ever left over, once more with a mask. begin is a multiple of lanes.
void write_vector_loop(LlvmWriter& writer, PointCode& point, int32_t dim, int lanes, const std::string& begin,
                       const std::string& end, bool is_whole, const std::function<void()>& body);

}  // namespace diptych::detail
