// One backward at a time enters a captured run.
#pragma once
namespace diptych::detail {

/// Note [Entering backwards]: from the start of a backward until it reaches what was given to set_compiled_autograd(),
/// LibTorch counts the threads that are under way, and refuses a second one as if it were a backward inside a backward
/// (torch/csrc/autograd/engine.cpp). So an engine like LibTorch's own takes its place, through which backwards enter
/// one after the other; behind the entry they run side by side as ever.

/// Puts that engine into its place, once and for all. Where a program has brought an engine of its own, as Python does,
/// nothing is done. Threads: any.
void make_entries_orderly();

/// Says whether runs are captured at all; if not, nobody waits.
void set_entries_watched(bool watched);

/// This thread has entered: the next may.
void leave_entry();

}  // namespace diptych::detail
