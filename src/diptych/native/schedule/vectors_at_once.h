// How many of the host's vectors a kernel computes at once.
#pragma once
#include "diptych/native/kernel/kernel.h"

namespace diptych::detail {

/// Returns a power of two.
///
/// Note [Latency]
/// A function that is written out is a chain of some fifteen operations, each of which waits four cycles for the one
/// before it, so that a vector keeps a core busy for a small part of the time. Functions of functions make chains
/// longer than the window in which a core looks for other work. So the longer the chain, the more vectors go through it
/// side by side, though they do not fit the registers: of thirty pointwise operators with five sigmoids, two vectors
/// took 5.3 ms, four 3.4 and eight 2.8 (Zen 3, a million numbers, one thread); where the sigmoids are stored,
/// too, 6.4, 4.7 and 6.4, since what is stored has to be held. Kernels with reductions gain a tenth at most, and lose
/// as much where they go over rows several times. SLEEF's functions take one vector a call.
int vectors_at_once(const Kernel& kernel);

}  // namespace diptych::detail
