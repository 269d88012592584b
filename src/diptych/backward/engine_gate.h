// One backward at a time enters a captured run.
#pragma once
namespace diptych::detail {

/// Note [Entering backwards]: LibTorch counts the threads between the start of a backward and the function given to
/// set_compiled_autograd(), and refuses a second one as if it were a backward inside a backward
/// (torch/csrc/autograd/engine.cpp). Therefore an engine like LibTorch's own replaces it, which lets backwards enter
/// one after the other; once they have entered, they run side by side as before.

/// Installs that engine, once for the process. Does nothing where a program has brought an engine of its own, as Python
/// does. Threads: any.
void make_entries_orderly();

/// Sets whether runs are captured at all; if not, no thread waits.
void set_entries_watched(bool watched);

/// Says that this thread has entered, and lets the next one in.
void leave_entry();

}  // namespace diptych::detail
