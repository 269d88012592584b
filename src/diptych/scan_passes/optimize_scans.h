// The passes over scans, in order.
#pragma once
#include "diptych/passes/simplify.h"

namespace diptych {

/// Returns `graph` with its scans made cheaper, those inside bodies of other operators too: what can be computed before
/// or after the loop is, nothing is carried, stacked or given that nobody reads, and bodies are simplified. Each pass
/// can be switched off by its name. `graph` itself is returned where it holds no scan. Slots are kept; rounding may
/// differ.
Graph optimize_scans(const Graph& graph, const SimplifyOptions& options = {});

}  // namespace diptych
