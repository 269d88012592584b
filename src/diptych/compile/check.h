// Calls of a compiled function beside the function that it stands for.
//
// Note [A checked call]: the original function runs first, as a shadow (Note [A shadow of a call]) on copies of the
// arguments, the free variables and the states of the generators; then the compiled one runs as ever, and what both
// have done is compared: results, changed inputs, what shares memory with what, draws. The copies stay with the
// autograd nodes of the call. A backward that reaches one takes the gradients of the original function for the same
// tangents first, and compares them with those of the compiled backward.
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

/// Which calls of one compiled function are checked.
class CheckSchedule {
 public:
  /// Every `every`-th; 0: as the environment variable DIPTYCH_CHECK says.
  explicit CheckSchedule(size_t every);
  /// Counts a call; whether it is to be checked. Costs one comparison where none is.
  bool is_due() { return every_ != 0 && ++calls_ % every_ == 0; }
  size_t num_checks() const { return every_ == 0 ? 0 : calls_ / every_; }

 private:
  size_t every_;
  std::atomic<size_t> calls_{0};
};

class CheckedBackward;

/// One call. Threads: one.
class CheckedCall {
 public:
  CheckedCall(std::shared_ptr<const CompiledFunction> code, c10::ArrayRef<const at::Tensor*> arguments);
  ~CheckedCall();

  /// Runs the original function on copies.
  void run_original(const FlatFunction& function);
  /// Runs the compiled one as it is. Errors: as CompiledFunction::call(); UserError if it did not throw where the
  /// original did.
  std::vector<at::Tensor> run_compiled();
  /// Compares the results' constants and structure, if the original function gave a result.
  void compare_structure(const TreeSpec& original, const TreeSpec& compiled) const;
  /// Compares all else, and has later backwards checked. Errors: UserError names what differs.
  void compare(const std::vector<at::Tensor>& outputs);
  bool has_original() const { return has_original_; }

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

/// What an exception says.
std::string text_of(const std::exception_ptr& error);
/// Throws the UserError of a difference; `where` is the node, as first_differing_node() has it.
[[noreturn]] void report_difference(const std::string& function, const std::string& whose, const Difference& difference,
                                    const std::string& where);

}  // namespace diptych::detail
