// What a call inside of a transform does besides computing new tensors: it changes arguments, and returns them and
// views of them.
//
// Note [Effects inside of transforms]: a hop is a pure function, and its rules are those of one. So the body that is
// captured returns the new values of what the function changes in place, and leaves out what the function only hands
// back. When the hop has run, the tensors of the call are written to and viewed by ordinary operators, on which the
// levels around the call do what they do in eager: a batched tensor gets a batch, a write to a tensor that a level does
// not wrap is torch's error.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "diptych/autodiff/flat_function.h"
#include "diptych/autodiff/forward_plan.h"
#include "diptych/interpreter/program.h"

namespace diptych::detail {

class JointCapture;

/// The effects of one captured function. Threads: any.
class CallEffects {
 public:
  using Tensors = std::vector<at::Tensor>;

  /// Reads them off a capture without exact outputs.
  /// Errors: UserError for an effect that no operator has outside of the function, such as a change of a shape.
  explicit CallEffects(const JointCapture& capture, size_t num_arguments);

  /// Returns the function whose results are new tensors alone: those of `function`, then bases of views that it
  /// returns, then the new values of what it changes. Call it in a trace.
  FlatFunction pure(const FlatFunction& function) const;
  /// Whether the pure function returns anything.
  bool has_results() const { return !slots_.empty() || !plan_.mutations.empty(); }
  /// Finds captured tensors among those of the capture that is called.
  void set_free_variables(const Tensors& captured);

  /// The tensors of `primals` (arguments, then captured tensors) that a call changes.
  Tensors written(const Tensors& primals) const;
  /// Checks that a call on these tensors has these effects. Errors: UserError for tensors that share memory, or that
  /// are laid out in a way that a graph does not know.
  void check(const Tensors& primals) const;
  /// Returns the operands of the pure function: copies of what is written later, by the call or through what it
  /// returns, since a backward may read them.
  Tensors operands(Tensors primals) const;
  /// Writes to the primals, and returns the results of the call. `found`: what the pure function returned.
  /// Ensures: if a write throws, every primal has the elements that it had.
  Tensors apply(const Tensors& primals, const Tensors& operands, Tensors found) const;

 private:
  size_t primal(size_t index) const;
  void write(const Tensors& primals, const Tensors& operands, const Tensors& found) const;

  PlanStructure plan_;
  std::unique_ptr<const Program> epilogue_;  ///< null if no result is a view
  size_t num_arguments_;
  Tensors captured_;             ///< free variables of the capture that the effects were read off
  std::vector<size_t> places_;   ///< of these, among the primals of a call
  std::vector<size_t> slots_;    ///< the forward slots that the pure function returns
  std::vector<size_t> touched_;  ///< primals that a call writes to or returns views of
};

}  // namespace diptych::detail
