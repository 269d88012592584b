// Captures whose scans are as the function has them.
#pragma once
#include <cstdlib>

namespace diptych::testing {

// No pass over scans runs for as long as it lives.
struct NoScanPasses {
  NoScanPasses() {
    ::setenv("DIPTYCH_PASSES_OFF",
             "drop_dead_scan_parts,drop_constant_carries,regroup_scan_sums,block_scans,hoist_from_scans,"
             "sink_from_scans,reuse_scan_stacks,simplify_scan_bodies",
             1);
  }
  ~NoScanPasses() { ::unsetenv("DIPTYCH_PASSES_OFF"); }
};

}  // namespace diptych::testing
