// What the generic set knows of an operator: how it runs a step, and the same written out in eager.
#pragma once
#include <source_location>
#include <string>

#include "hops/unrolled.h"

namespace diptych::testing {

using StepResult = std::pair<Tensors, Tensors>;
/// Runs `step` once per slice of `xs`, of which there are `length`, from `init` on; returns carries and outputs.
using LoopFunction =
    std::function<StepResult(const Step& step, const Tensors& init, const Tensors& xs, int64_t length)>;

/// An operator in the form of a loop over a step. One that runs its body once is called once per slice.
struct Subject {
  std::string name;
  LoopFunction run;
  LoopFunction reference;   ///< the same, with nothing but eager's operators
  bool has_carries = true;  ///< a step gets what the one before it returned
  bool has_outputs = true;  ///< what a step gives out besides carries is returned
  bool has_buffers = true;  ///< a step may change a captured buffer
  bool may_write = true;    ///< a step may change its arguments, and captured tensors with gradients
  bool is_loop = true;      ///< one call runs all steps
  bool captures = true;     ///< it captures its body, and owns its results; otherwise the body just runs
  bool runs_again = false;  ///< its backward reads all operands, as it runs the body again
  /// Inside a capture nobody knows the number of steps: gradients may be zeros where eager has none.
  bool has_unknown_length = false;
  bool keeps_draws_in_captures = true;  ///< a body may draw where a capture differentiates it
};

/// The operators of the library.
const std::vector<Subject>& library_subjects();

/// Runs every check that fits on `subject`, as tests "<subject>.<check>" of the file that calls it. Call it before the
/// tests run, as from the initializer of a global: const bool kAdded = add_generic_set(my_subject());
bool add_generic_set(const Subject& subject, std::source_location caller = std::source_location::current());

/// The reference of an operator with carries and outputs.
StepResult written_out(const Step& step, const Tensors& init, const Tensors& xs, int64_t length);
/// One call of an operator that runs a step once; `number`: of the call.
using CallFunction =
    std::function<StepResult(const Step& step, const Tensors& carry, const Tensors& slices, int64_t number)>;
/// A loop over such calls.
LoopFunction called_per_slice(const CallFunction& call);

}  // namespace diptych::testing
