#include "ops/shapes_check.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "diptych/ops/shapes.h"

namespace diptych::test {

using namespace detail;
namespace {

// A number that stands for a tensor stays on the CPU, as it does in a trace.
bool is_number(const at::Tensor& tensor) {
  return tensor.defined() && tensor.unsafeGetTensorImpl()->is_wrapped_number();
}

at::Tensor to_meta(const at::Tensor& tensor) {
  if (!tensor.defined() || is_number(tensor)) return tensor;
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta));
}

c10::IValue to_meta(const c10::IValue& value) {
  if (value.isTensor()) return to_meta(value.toTensor());
  if (value.isDevice()) return c10::Device(at::kMeta);
  if (value.isTensorList()) {
    std::vector<at::Tensor> metas;
    for (const at::Tensor& t : value.toTensorVector()) metas.push_back(to_meta(t));
    return metas;
  }
  return value;
}

// Copies of the arguments in their own layout, for kernels that write to them.
c10::Stack real_arguments(const OpSample& sample) {
  c10::Stack stack;
  for (const c10::IValue& value : sample.arguments) {
    const bool copies = value.isTensor() && value.toTensor().defined() &&
                        value.toTensor().is_non_overlapping_and_dense() && !is_number(value.toTensor());
    stack.push_back(copies ? c10::IValue(value.toTensor().clone()) : value);
  }
  return stack;
}

std::string describe(const at::Tensor& t) {
  if (!t.defined()) return "undefined";
  return c10::str(t.scalar_type(), t.sizes(), "{", t.strides(), "}");
}

std::string describe(const c10::Stack& stack) {
  std::string text;
  for (const c10::IValue& value : stack) {
    if (value.isTensor()) text += describe(value.toTensor()) + " ";
    if (value.isTensorList()) {
      for (const at::Tensor& t : value.toTensorVector()) text += describe(t) + ", ";
    }
  }
  return text;
}

c10::Stack meta_arguments(const OpSample& sample) {
  c10::Stack metas;
  const auto handle = sample.handle();
  for (size_t i = 0; i < sample.arguments.size(); ++i) {
    const bool is_device = handle.schema().arguments()[i].name() == "device";
    metas.push_back(is_device ? c10::IValue(c10::Device(at::kMeta)) : to_meta(sample.arguments[i]));
  }
  return metas;
}

// Pushes what the shape function gives, or else the Meta kernel. Returns whether it was the shape function.
bool infer(const c10::OperatorHandle& op, c10::Stack& stack) {
  const ShapeFunction function = find_shape_function(op);
  const c10::Stack before = stack;
  if (function != nullptr && function(op, stack)) return true;
  EXPECT_EQ(before.size(), stack.size()) << "declined but changed the stack";
  op.callBoxed(stack);
  return false;
}

void expect_match(const OpSample& sample) {
  const std::string where = sample.op + " (" + sample.note + ") of " + describe(sample.arguments);
  const auto op = sample.handle();
  c10::Stack real = real_arguments(sample);
  try {
    op.callBoxed(real);
  } catch (const std::exception& error) {
    ADD_FAILURE() << where << ": the sample itself is wrong: " << std::string(error.what()).substr(0, 300);
    return;
  }
  try {
    c10::Stack metas = meta_arguments(sample);
    const bool answered = infer(op, metas);
    EXPECT_EQ(describe(real), describe(metas)) << where << (answered ? " by shape function" : " by Meta kernel");
    for (const c10::IValue& value : metas) {
      if (value.isTensor() && value.toTensor().defined()) EXPECT_TRUE(value.toTensor().is_meta()) << where;
    }
  } catch (const std::exception& error) {
    ADD_FAILURE() << where << ": " << std::string(error.what()).substr(0, 300);
  }
}

}  // namespace

void expect_shapes_match(const Samples& samples) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  for (const OpSample& sample : samples) expect_match(sample);
}

std::set<std::string> operators_answered(const Samples& samples) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  std::set<std::string> answered;
  for (const OpSample& sample : samples) {
    const ShapeFunction function = find_shape_function(sample.handle());
    c10::Stack metas = meta_arguments(sample);
    if (function != nullptr && function(sample.handle(), metas)) answered.insert(sample.op);
  }
  return answered;
}

}  // namespace diptych::test
