// Compares a shape function (or, where there is none, the Meta kernel) with what the CPU kernel does.
#pragma once
#include <set>
#include <string>

#include "ops/op_info.h"

namespace diptych::test {

/// Runs every sample on real tensors and on metas and expects equal sizes, strides, dtypes and undefinedness.
void expect_shapes_match(const Samples& samples);

/// Runs the samples on metas only and returns the operators whose shape function answered at least once.
std::set<std::string> operators_answered(const Samples& samples);

}  // namespace diptych::test
