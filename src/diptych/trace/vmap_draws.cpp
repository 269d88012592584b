#include "diptych/trace/vmap_draws.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/clone.h>

namespace diptych::detail {
namespace {

c10::OperatorHandle in_place(const c10::OperatorHandle& op) {
  std::string name = op.operator_name().name;
  if (const auto suffix = name.rfind("_functional"); suffix != std::string::npos) name.resize(suffix);
  return c10::Dispatcher::singleton().findSchemaOrThrow((name + "_").c_str(), op.operator_name().overload_name.c_str());
}

}  // namespace

void draw_into_a_copy(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  c10::IValue& drawn = torch::jit::peek(*stack, 0, op.schema().arguments().size());
  drawn = drawn.toTensor().clone();
  in_place(op).callBoxed(stack);
}

}  // namespace diptych::detail
