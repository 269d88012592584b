// The suites on loops (scan, layers, checkpoint) and on XLA. Each function adds the cases that one engine has of a
// suite.
#pragma once
#include "protocol.h"

namespace diptych::bench {

void add_scan_cases(Cases& cases);
void add_eager_scan_cases(Cases& cases);

/// How the deep GPT's blocks are run, and what is kept of them.
enum class LayerWay {
  kScan,        ///< scan_layers over checkpointed blocks
  kScanAll,     ///< scan_layers over blocks that keep everything that their backward needs
  kWrittenOut,  ///< checkpointed blocks, one after the other
  kEager,
};
void add_layer_cases(Cases& cases, LayerWay way);

void add_checkpoint_cases(Cases& cases);

/// The steps of the XLA suite by the interpreter, and in eager.
void add_xla_steps(Cases& cases);
void add_eager_xla_steps(Cases& cases);
/// Whole training steps whose state stays on XLA's device.
void add_xla_training(Cases& cases);

}  // namespace diptych::bench
