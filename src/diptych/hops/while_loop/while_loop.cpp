#include "diptych/hops/while_loop/while_loop.h"

#include "diptych/base/check.h"
#include "diptych/hops/call.h"
#include "diptych/hops/eager_loops.h"
#include "diptych/hops/loop_body.h"
#include "diptych/hops/strides.h"
#include "diptych/hops/truth.h"
#include "diptych/hops/while_loop/while_operator.h"
#include "diptych/trace/placeholder.h"

namespace diptych::detail {
namespace {

// The condition sees the carry, and buffers that the step changes.
std::shared_ptr<const Body> capture_condition(const FlatFunction& condition, const Flattened& init,
                                              const LoopBody& loop) {
  std::vector<at::Tensor> arguments;
  std::vector<std::string> paths;
  for (size_t i = 0; i < init.tensors.size(); ++i) {
    arguments.push_back(make_placeholder(contiguous(meta_of_argument(init.tensors[i]))));
    paths.push_back(init.spec.tensor_path(i));
  }
  for (size_t i = 0; i < loop.buffers.size(); ++i) {
    arguments.push_back(loop.buffers[i]);
    paths.push_back(fmt::format("buffer.{}", i));
  }
  const auto of_carry = [&](const std::vector<at::Tensor>& stand_ins) {
    FlatResult result = condition({stand_ins.begin(), stand_ins.begin() + static_cast<int64_t>(init.tensors.size())});
    if (result.tensors[0].defined()) result.tensors[0] = truth_of(result.tensors[0]);
    return result;
  };
  auto body = std::make_shared<const Body>(of_carry, arguments, paths, "condition");
  check_condition(body->result(0));
  for (const auto& mutation : body->mutations()) {
    throw UserError(fmt::format("[while_loop] the condition changes '{}' in place; change it in the body",
                                body->graph()->input_slots()[mutation.primal].path));
  }
  return body;
}

std::vector<at::Tensor> captured_while_loop(const FlatFunction& condition, const FlatFunction& step,
                                            const Flattened& init, int64_t every) {
  LoopInputs inputs;
  inputs.may_write = true;
  const LoopBody loop = capture_loop_body("while_loop", step, init, inputs);
  // The number of steps is not known, so there is no stack that the first step's carry could be taken from.
  for (const ArgumentWrite& write : loop.writes) {
    DIPTYCH_CHECK(write.is_next_carry,
                  "[while_loop] the body changes its argument '{}' in place, and returns another tensor in its place; "
                  "return the changed one, or change a clone of it",
                  init.spec.tensor_path(write.argument));
  }
  const auto test = capture_condition(condition, init, loop);
  std::vector<at::Tensor> operands = operands_before(loop.writes, init.tensors);
  for (at::Tensor& buffer : loop.buffer_operands()) operands.push_back(std::move(buffer));
  std::vector<size_t> groups{operands.size()};
  for (const auto& body : {test, loop.body}) {
    groups.push_back(body->free_variables().size());
    operands.insert(operands.end(), body->free_variables().begin(), body->free_variables().end());
  }
  const auto hop = make_hop(WhileOperator::get(), {test, loop.body}, std::move(groups), {{"checkpoint_every", every}});
  auto results = loop.write_buffers(call(hop, std::move(operands)), init.tensors.size());
  return write_arguments(loop.writes, init.tensors, init.tensors.size(), std::move(results));
}

}  // namespace

std::vector<at::Tensor> while_loop_flat(const FlatFunction& condition, const FlatFunction& step, const Flattened& init,
                                        const WhileOptions& options) {
  const int64_t every = options.checkpoint_every.value_or(0);
  DIPTYCH_CHECK(!options.checkpoint_every || every > 0,
                "[while_loop] options.checkpoint_every is {}, expected 1 or more; leave it out to keep every step",
                every);
  return captured_or_eager(
      "while_loop", {&init}, [&] { return captured_while_loop(condition, step, init, every); },
      [&] { return while_loop_in_eager(condition, step, init); });
}

}  // namespace diptych::detail
