// The generic set: checks that every higher-order operator has to pass, each against the loop written out.
#pragma once
#include "hops/subject.h"

namespace diptych::testing {

/// A loop on some inputs: first carries, then tensors to slice, then what the step captures.
struct Case {
  std::function<Tensors()> leaves;
  size_t num_carries = 1;
  size_t num_slices = 1;
  std::function<StepResult(const Tensors& carry, const Tensors& slices, const Tensors& captured)> step;
  int64_t length = 3;
  std::function<Tensors(const Tensors&)> derive = [](const Tensors& leaves) { return leaves; };
  double tolerance = 1e-12;
  bool in_pair = true;             ///< also through capture(), whose gradients are per slot
  bool any_layout = false;         ///< results may have other strides than the loop's
  bool depends_on_length = false;  ///< what requires grad would be another with no step at all

  /// The loop as a function of all inputs, by the operator and written out.
  Function run_by(const Subject& subject) const;
  Function written_out_for(const Subject& subject) const;
  Tensors inputs() const { return derive(leaves()); }
};

/// Expects that the operator does what the loop does, called in eager, in an aot_function, and in a captured pair:
/// values, gradients, which of them there are, requires_grad, is_leaf and aliasing. The loop's results own their
/// memory, as an operator's do.
void expect_as_loop(const Subject& subject, const Case& loop);

struct Check {
  std::string name;
  std::function<void(const Subject&)> run;
  bool needs_carries = false;
  bool needs_outputs = false;
  bool needs_buffers = false;
  bool needs_loop = false;
  bool needs_capture = false;
};
const std::vector<Check>& value_checks();
const std::vector<Check>& operand_checks();
const std::vector<Check>& gradient_checks();
const std::vector<Check>& effect_checks();
const std::vector<Check>& random_checks();
const std::vector<Check>& nesting_checks();

/// A recurrent cell: carry [2,3], slices [2,3], two captured matrices [3,3]; gives out twice its carry.
Case cell(int64_t length = 3);

/// Leaves for three steps: a carry [2,3], slices [3,2,3], a captured [2,3].
inline Tensors three() { return {leaf64({2, 3}), leaf64({3, 2, 3}, 0.3), leaf64({2, 3}, 0.7)}; }

/// How an operator is called: as it is, or in an aot_function.
struct Caller {
  std::string name;
  std::function<Function(const Function&)> wrap;
};
const std::vector<Caller>& callers();

}  // namespace diptych::testing
