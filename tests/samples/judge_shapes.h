// Compares a shape function (or, where there is none, the Meta kernel) with what the CPU kernel does.
#pragma once
#include <set>

#include "samples/call.h"

namespace diptych::test {

/// Expects the sizes, strides and dtypes of eager's results on metas, and undefined what is so.
void judge_by_shapes(const SampledCall& call);
void expect_shapes_match(const Samples& samples);

/// Runs the samples on metas only and returns the operators whose shape function answered at least once.
std::set<std::string> operators_answered(const Samples& samples);

}  // namespace diptych::test
