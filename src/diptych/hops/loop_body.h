// Capturing the body of a loop from code: carries that settle, buffers that become carries, arguments that the code
// changes in place, and what is refused.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "diptych/hops/argument_writes.h"
#include "diptych/hops/body.h"
#include "diptych/tree/flatten.h"

namespace diptych::detail {

/// Checks that a step keeps a carry's sizes, dtype and device. Errors: UserError names `who` and the carry at `path`.
void check_carry(const char* who, const std::string& path, const TensorMeta& before, const TensorMeta& after);

/// What a body takes besides carries.
struct LoopInputs {
  std::vector<TensorMeta> metas;
  std::vector<std::string> paths;
  /// If not empty: real tensors that the code captures and that these inputs represent. The code may change them in
  /// place; the caller handles those mutations.
  std::vector<at::Tensor> examples = {};
  /// The tensors that the caller passes for these inputs, or slices for them; they must not share memory with a buffer.
  std::vector<at::Tensor> given = {};
  std::string name = "body";  ///< of the graph
  /// Whether the code may change carries and inputs in place; the caller then handles LoopBody::writes.
  bool may_write = false;
  /// Tensors that are buffers and arguments that leave the body again, whether this code changes them or not: another
  /// body of the same operator does.
  std::vector<at::Tensor> buffers = {};
  std::vector<bool> seen_buffers = {};
  std::vector<ArgumentWrite> writes = {};
};

/// Returns the arguments of an operator that runs its body once, as the inputs of a loop of one step, which may write
/// to them. Errors: UserError names `who` and an argument that is undefined.
LoopInputs inputs_of_call(const char* who, const Flattened& arguments);

/// A captured loop body. Inputs: the carries of `init`, buffers, the further inputs, free variables. Outputs: the next
/// carries, the buffers' new values, whatever else the code returns, the new values of `writes`.
struct LoopBody {
  std::shared_ptr<const Body> body;
  std::vector<at::Tensor> buffers;  ///< captured tensors that the code changes in place
  std::vector<bool> seen_buffers;   ///< whether autograd sees a change of each
  std::vector<ArgumentWrite> writes = {};

  /// The operands of a loop: the first `num_carries` arguments, the buffers, the other arguments, the free variables.
  /// What is written afterwards is copied.
  std::vector<at::Tensor> operands(const std::vector<at::Tensor>& arguments, size_t num_carries) const;
  /// The buffers as operands: copies, since the loop's backward may read what they were before write_buffers().
  std::vector<at::Tensor> buffer_operands() const;
  /// Writes the last values of the buffers back, and returns a loop's results without them.
  std::vector<at::Tensor> write_buffers(std::vector<at::Tensor> results, size_t num_carries) const;
};

/// Captures `step`, which takes carries and `inputs` and returns carries first. `who`: names the operator in errors.
/// Errors: UserError by path for a carry whose sizes or dtype change, and for an argument or a captured tensor that is
/// changed in place where that can't be carried.
LoopBody capture_loop_body(const char* who, const FlatFunction& step, const Flattened& init, const LoopInputs& inputs);

}  // namespace diptych::detail

namespace diptych {
// Operators from outside the library are built with these, too.
using detail::capture_loop_body;
using detail::LoopBody;
using detail::LoopInputs;
}  // namespace diptych
