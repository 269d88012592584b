// Running a scan.
#pragma once
#include "diptych/hops/scan/scan_operator.h"

namespace diptych::detail {

/// Makes the kernel of a scan, which runs the body's program once per step, or once per ScanAttributes::unroll steps.
HopFunction make_scan_kernel(const Hop& scan);

}  // namespace diptych::detail
