// Every sample of a family before every judge. Eager runs once for all of them. A run takes the first sample of each
// operator, those that are fixed, and its part of the others; DIPTYCH_SAMPLE='aten.view 3' takes one,
// DIPTYCH_SAMPLE=aten.view an operator's.
#pragma once
#include <gtest/gtest.h>

#include "samples/families.h"
#include "samples/judges.h"
#include "samples/left.h"

namespace diptych::test {

void PrintTo(const Family& family, std::ostream* out);

/// The families with such names.
std::vector<Family> families_of(const std::string& prefix);
inline std::string name_of(const ::testing::TestParamInfo<Family>& info) { return info.param.name; }

class Walk : public ::testing::TestWithParam<Family> {
 protected:
  Walk();
  void walk();

 private:
  bool is_wanted(const OpSample& sample, int number) const;
  /// Expects of a judge what left_to_the_interpreter.txt says, or writes it down.
  void note(const char* judge, const OpSample& sample, int number, bool takes, const std::string& where);
  void judge(const OpSample& sample, int number);
  void judge(const SharedCall& call, int number);

  OneThread calls_are_small_;
  bool renews_;
  LeftSamples left_;
  NativeJudge native_;
  XlaJudge xla_;
};

}  // namespace diptych::test
