// Graphs with scans, written as text.
#pragma once
#include "diptych/graph/parse.h"
#include "diptych/hops/scan/scan_operator.h"
#include "diptych/ops/hop_schemas.h"

namespace diptych::testing {

inline Graph parse_scan(std::string_view text) {
  register_hop(ScanOperator::get());
  return parse(text, {}, detail::find_hop_schema);
}

}  // namespace diptych::testing
