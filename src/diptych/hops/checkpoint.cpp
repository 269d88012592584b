#include "diptych/hops/checkpoint.h"

#include "diptych/base/error.h"
#include "diptych/hops/cond/cond_operator.h"
#include "diptych/hops/loop_body.h"

namespace diptych::detail {
namespace {

// The function is the body of a loop of one step that carries nothing but the buffers that it changes.
std::vector<at::Tensor> captured_checkpoint(const FlatFunction& function, const Flattened& arguments,
                                            const CheckpointPolicy& policy) {
  const LoopInputs inputs = inputs_of_call("checkpoint", arguments);
  const auto marked = [&](const std::vector<at::Tensor>& stand_ins) {
    const CheckpointRegion region(policy);
    return function(stand_ins);
  };
  const LoopBody body = capture_loop_body("checkpoint", marked, {}, inputs);
  const auto hop = make_invoke(body.body, body.buffers.size() + arguments.tensors.size());
  auto results = body.write_buffers(call(hop, body.operands(arguments.tensors, 0)), 0);
  return write_arguments(body.writes, arguments.tensors, 0, std::move(results));
}

}  // namespace

std::vector<at::Tensor> checkpoint_flat(const FlatFunction& function, const Flattened& arguments,
                                        const CheckpointPolicy& policy) {
  return captured_or_eager(
      "checkpoint", {&arguments}, [&] { return captured_checkpoint(function, arguments, policy); },
      [&] { return function(arguments.tensors).tensors; });
}

}  // namespace diptych::detail
