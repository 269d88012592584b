// The way every pass is run: with a switch, a timer, the verifier, and a log of what it changed.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::detail {

struct PassOptions {
  /// Passes that are skipped, by name; those named in the environment variable DIPTYCH_PASSES_OFF (comma separated, or
  /// "all") are skipped too.
  std::vector<std::string> off;
  /// Whether each result is verified. Debug builds do so anyway.
  bool verify = false;
};

/// Returns `pass(graph)`, or `graph` itself if the pass is switched off. With DIPTYCH_LOG=passes it logs the time, the
/// number of nodes before and after, and the new graph where the pass changed it.
/// Ensures: in debug builds, or if options.verify is set, that the result verifies and has the slots of `graph`.
/// Errors: InternalError names the pass that broke the graph.
Graph run_pass(std::string_view name, const Graph& graph, const std::function<Graph(const Graph&)>& pass,
               const PassOptions& options = {});

}  // namespace diptych::detail
