// The suites on loops: scan, layers, checkpoint. Each function adds the cases that one engine has of a suite.
#pragma once
#include "protocol.h"

namespace diptych::bench {

void add_scan_cases(Cases& cases);
void add_eager_scan_cases(Cases& cases);

}  // namespace diptych::bench
