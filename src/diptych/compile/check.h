// Checked calls of a compiled function, each beside a run of the original function.
//
// Note [A checked call]: the original function runs first, as a shadow (Note [A shadow of a call]) on copies of the
// arguments, the free variables and the states of the generators. Then the compiled one runs as usual, and what both
// did is compared: results, changed inputs, which tensors share memory, draws. The copies stay with the autograd nodes
// of the call. A backward that reaches one first takes the gradients of the original function for the same tangents,
// and compares them with those of the compiled backward.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "diptych/compile/check_compare.h"
#include "diptych/compile/check_copies.h"
#include "diptych/compile/check_state.h"
#include "diptych/compile/compiled_function.h"
#include "diptych/tree/spec.h"

namespace diptych::detail {

/// Decides which calls of one compiled function are checked.
class CheckSchedule {
 public:
  /// Checks every `every`-th call; 0 means as the environment variable DIPTYCH_CHECK says.
  explicit CheckSchedule(size_t every);
  /// Counts a call, and returns whether it is to be checked. Costs one comparison if no calls are.
  bool is_due() { return every_ != 0 && ++calls_ % every_ == 0; }
  size_t num_checks() const { return every_ == 0 ? 0 : calls_ / every_; }

 private:
  size_t every_;
  std::atomic<size_t> calls_{0};
};

class CheckedBackward;

/// One checked call. Threads: one.
class CheckedCall {
 public:
  CheckedCall(std::shared_ptr<const CompiledFunction> code, c10::ArrayRef<const at::Tensor*> arguments);
  ~CheckedCall();

  /// Runs the original function on copies.
  void run_original(const FlatFunction& function);
  /// Runs the compiled function as usual. Errors: as CompiledFunction::call(); UserError if it does not throw although
  /// the original function did.
  std::vector<at::Tensor> run_compiled();
  /// Compares the constants and the structure of the results, if the original function returned one.
  void compare_structure(const TreeSpec& original, const TreeSpec& compiled) const;
  /// Compares everything else, and sets up the check of later backwards. Errors: UserError names what differs.
  void compare(const std::vector<at::Tensor>& outputs);

 private:
  void compare_outputs(const std::vector<at::Tensor>& outputs) const;
  void compare_sharing(const std::vector<at::Tensor>& outputs) const;
  void compare_inputs() const;
  void compare_other_writes() const;
  void compare_draws() const;
  void attach(const std::vector<at::Tensor>& outputs);
  std::string path_of_output(size_t index) const;
  std::string path_of_input(size_t index) const;
  std::string where() const;
  [[noreturn]] void report(const std::string& whose, const Difference& difference) const;

  std::shared_ptr<const CompiledFunction> code_;
  std::vector<const at::Tensor*> arguments_;
  std::vector<at::Tensor> reals_;     ///< the primals
  std::vector<at::Tensor> pristine_;  ///< the same, as they were before the call
  torch::autograd::edge_list real_edges_;
  std::vector<int64_t> real_versions_;
  std::vector<int64_t> copy_versions_;
  std::shared_ptr<TensorCopies> copies_;
  std::shared_ptr<Shadow> shadow_;
  Generators generators_;
  std::vector<at::Tensor> states_before_;
  std::vector<at::Tensor> states_after_;  ///< of the original function
  std::vector<at::Tensor> originals_;     ///< its results
  std::vector<OperatorRecord> records_;
  std::vector<Shadow::Write> writes_;
  std::exception_ptr error_;
  bool has_original_ = false;
};

/// Returns the message of an exception.
std::string text_of(const std::exception_ptr& error);
/// Throws a UserError that reports a difference; `where` is what first_differing_node() returned.
[[noreturn]] void report_difference(const std::string& function, const std::string& whose, const Difference& difference,
                                    const std::string& where);

}  // namespace diptych::detail
