// left_to_the_interpreter.txt: which samples a backend does not take, or eager refuses. The walk compares with it, and
// rewrites a family's part with DIPTYCH_RENEW_SAMPLES=1, so that a change of what a backend takes shows as a change of
// this file.
#pragma once
#include <map>
#include <set>
#include <string>

namespace diptych::test {

/// The numbers of an operator's samples, by family, judge and operator.
using Numbers = std::set<int>;
using LeftSamples = std::map<std::string, std::map<std::string, std::map<std::string, Numbers>>>;

LeftSamples read_left_samples();
void write_left_samples(const LeftSamples& left);

}  // namespace diptych::test
