// Arguments that the body of an operator changes in place.
//
// Note [Arguments that bodies change]
// A loop or a branch means what the same Python or C++ loop means: a carry, a slice or an argument that the function
// changes in place is changed for the caller, too. The body is a pure graph, so the new value is one of its outputs,
// and the caller's tensor is written when the operator has run.
//   a slice       the new slices are stacked, and written to the tensor that was sliced
//   an argument   of a branch or a checkpoint: its new value
//   a carry       that the body returns itself (`c.add_(x); return c, ...`): init is the one tensor that every step
//                 changes, so it is left as the last carry
//   a carry       in whose place the body returns another tensor: only the first step has init itself, so it is left as
//                 the first step leaves it, which is taken out of a stack
// A later step changes a carry that an earlier one returned. Where that tensor is also something else, such as an
// output or a captured tensor, the loop written out would show the later change there. That is refused: values can't
// say it. Operands that are written later are copied, since the operator's backward may read what they were.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace diptych::detail {

/// One argument that a body changes in place.
struct ArgumentWrite {
  size_t argument = 0;         ///< among the carries of init, then the further inputs
  bool is_next_carry = false;  ///< the body returns the changed carry itself as the next one, so no output is added
  bool under_no_grad = true;   ///< all of it happened where autograd does not see it
};

/// Writes a new value to a tensor from outside of the operator. `under_no_grad`: autograd does not see it.
void write_back(const at::Tensor& tensor, const at::Tensor& value, bool under_no_grad);

/// Returns `arguments` as operands: copies of those that are written afterwards.
std::vector<at::Tensor> operands_before(const std::vector<ArgumentWrite>& writes, std::vector<at::Tensor> arguments);

/// Takes the new values off the end of an operator's results and writes them to `arguments`, of which the first
/// `num_carries` are carries. `first_step`: where the first step's value is in a stack of values of carries; nullopt
/// for a loop without steps, which changes no carry. Returns the results without the new values.
std::vector<at::Tensor> write_arguments(const std::vector<ArgumentWrite>& writes,
                                        const std::vector<at::Tensor>& arguments, size_t num_carries,
                                        std::vector<at::Tensor> results, std::optional<int64_t> first_step = {});

/// Checks inside of a trace of a body that changes its carries in place: a changed carry that is returned is no other
/// tensor as well. `changed`: the positions of the carries, `given`: what the body got, `returned`: what it returned,
/// the next carries first. Errors: UserError names the two by `paths` of the results and of the arguments.
void check_next_carries_are_their_own(const char* who, const std::vector<ArgumentWrite>& changed,
                                      const std::vector<at::Tensor>& given, const std::vector<at::Tensor>& returned,
                                      const std::vector<std::string>& paths, size_t num_carries);

}  // namespace diptych::detail
