#include "diptych/hops/builtin_hops.h"

#include "diptych/hops/checkpointed_scan/checkpointed_scan.h"
#include "diptych/hops/checkpointed_scan/reverse_segments.h"
#include "diptych/hops/cond/cond_operator.h"
#include "diptych/hops/custom_vjp/custom_vjp_operator.h"
#include "diptych/hops/scan/blocked_scan.h"
#include "diptych/hops/scan/scan_operator.h"
#include "diptych/hops/vjp_operator.h"
#include "diptych/hops/while_loop/while_operator.h"
#include "diptych/ops/hop_schemas.h"

namespace diptych {

using namespace detail;

const HopSchema* find_hop(std::string_view name) {
  static const bool registered = [] {
    const HigherOrderOperator* const builtin[] = {&BlockedScanOperator::get(), &BranchOperator::cond(),
                                                  &BranchOperator::invoke(),   &CheckpointedScanOperator::get(),
                                                  &CustomVjpOperator::get(),   &ReverseSegmentsOperator::get(),
                                                  &ScanOperator::get(),        &VjpOperator::get(),
                                                  &WhileOperator::get()};
    for (const auto* op : builtin) register_hop(*op);
    return true;
  }();
  return registered ? find_hop_schema(name) : nullptr;
}

}  // namespace diptych
