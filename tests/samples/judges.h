// Who says whether a call does what eager does; judge_shapes.h is another. Each is given the call with eager's results.
#pragma once
#include "samples/call.h"

namespace diptych::test {

/// The interpreter: bit for bit.
void judge_by_interpreter(const SharedCall& call);

/// Kernels, by the evaluator and as machine code: as near to the truth as eager is. Code of several calls is one kernel
/// where that can be.
class NativeJudge {
 public:
  /// Whether it becomes a kernel.
  static bool takes(const SharedCall& call);
  /// Requires: takes().
  void judge(const SharedCall& call);
  /// Judges what is still to be compared.
  void finish();

 private:
  void run_code();
  std::vector<SharedCall> waiting_;
};

/// XLA: as near to eager as rounding has it, or to the truth as eager is. Several calls are one program, which compiles
/// sooner than one each.
class XlaJudge {
 public:
  static bool takes(const SharedCall& call);
  /// Requires: takes().
  void judge(const SharedCall& call);
  void finish();

 private:
  std::vector<SharedCall> waiting_;
};

}  // namespace diptych::test
