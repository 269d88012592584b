// hop.compiled: a compiled function as a hop, for calls inside of transforms.
#pragma once
#include "diptych/compile/options.h"
#include "diptych/hops/cond/cond_operator.h"

namespace diptych::detail {

/// hop.invoke, run by a backend. What the rules of transforms and derivatives make of it is compiled as well. The
/// attribute `compiler` is a number that compiler_number() gave.
class CompiledOperator final : public BranchOperator {
 public:
  static const CompiledOperator& get();
  HopFunction compile(const Hop& hop) const override;

 private:
  using BranchOperator::BranchOperator;
};

/// Returns a number by which hops of this process know the compiler of these options; the same for the same backend.
/// Errors: as backend_by_name().
int64_t compiler_number(const AotOptions& options);

}  // namespace diptych::detail
