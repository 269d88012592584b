// Reading off a finished trace what the function did to its primals and how its outputs alias.
#pragma once
#include "diptych/autodiff/forward_plan.h"
#include "diptych/autodiff/joint_capture.h"
#include "diptych/trace/recorder.h"

namespace diptych::detail {

/// A forward output slot: the user's outputs, then the new values of mutated primals.
struct ForwardSlot {
  SlotKind kind = SlotKind::kOutput;
  std::string path;
  at::Tensor tensor;  ///< the stand-in whose value leaves the graph here; undefined for an absent slot
  Value value;
};

struct OutputAnalysis {
  ForwardPlan plan;
  std::vector<ForwardSlot> slots;
};

/// Analyzes a finished trace. Requires: called inside the trace, after the function ran; `result` holds its stand-ins.
/// Errors: UserError for effects on primals that a graph can't hold.
OutputAnalysis analyze_outputs(Recorder& recorder, const FlatResult& result, bool exact_outputs);

}  // namespace diptych::detail
