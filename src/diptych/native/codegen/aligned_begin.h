// Where a loop's non-temporal stores begin.
#pragma once
#include <string>
#include <vector>

#include "diptych/native/codegen/point_code.h"

namespace diptych::detail {

/// Where non-temporal stores may begin.
struct AlignedBegin {
  std::string points;  ///< from the point on at which the code is: an i64
  std::string exists;  ///< whether there is one: an i1
};
/// Writes what finds the first point from which vectors of `lanes` points along the vector dim, from the one that is
/// set on, are aligned for all of the stores.
AlignedBegin write_aligned_begin(LlvmWriter& writer, PointCode& point, const std::vector<const KernelStore*>& stores,
                                 int lanes);

}  // namespace diptych::detail
