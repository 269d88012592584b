// The one list of passes between capturing a graph and compiling it: see pipeline.cpp.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "diptych/passes/partition.h"
#include "diptych/passes/simplify.h"

namespace diptych::detail {

/// The kinds of graph that go through the pipeline. Each goes through some of its steps.
enum class Stage : uint8_t {
  kJoint,        ///< forward and backward in one, before the split
  kForward,      ///< the forward half of a function, or a function without a backward
  kBackward,     ///< the backward half of a function
  kBody,         ///< a half of a loop's or a branch's body, which is captured again when it is differentiated again
  kHop,          ///< one higher-order operator that is run outside any capture
  kBackwardRun,  ///< the trace of one run of the autograd engine
};

/// Returns a joint graph in the form that a backend would rather have: Backend::prepare_joint.
using PrepareJoint = std::function<Graph(const Graph&)>;

/// What the steps need to know.
struct LowerOptions {
  SimplifyOptions simplify = {};
  /// For a joint graph: operators to decompose, by name ("aten.gelu"), or "all" for every one that has a rule.
  std::vector<std::string> decompositions = {};
  PrepareJoint prepare = {};  ///< after these; null leaves the graph as it is
  /// For a forward graph: positions of inputs whose elements the call changes after the graph has run.
  std::vector<size_t> mutated = {};
};

/// Runs the steps of the pipeline that `stage` goes through. Forward nodes of a joint graph, and the numbers of their
/// values, come out the same for every backward variant of one capture.
/// Ensures: slots are kept. Errors: UserError names a decomposition that LibTorch does not have.
Graph lower(Stage stage, Graph graph, const LowerOptions& options = {});

/// Does the same for a joint graph with its layout.
Joint lower_joint(Joint joint, const std::vector<std::string>& decompositions, const PrepareJoint& prepare = {});

/// Makes the scans of `graph` cheaper, those inside bodies of other operators too: whatever can be is computed before
/// or after the loop, values that nobody reads are not carried, stacked or passed in, and bodies are simplified. Each
/// pass can be switched off by its name. Returns `graph` itself if it holds no scan. Slots are kept; rounding may
/// differ.
Graph optimize_scans(const Graph& graph, const SimplifyOptions& options = {});

}  // namespace diptych::detail
