// Compares a shape function (or, where there is none, the Meta kernel) with what the CPU kernel does.
#include "samples/judge_shapes.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "diptych/ops/shapes.h"

namespace diptych::test {

using namespace detail;

namespace {

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

Tensors tensors_of(const c10::Stack& stack) {
  Tensors tensors;
  for (const c10::IValue& value : stack) {
    if (value.isTensor()) tensors.push_back(value.toTensor());
    if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(tensor);
    }
  }
  return tensors;
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

}  // namespace

void judge_by_shapes(const SampledCall& call) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const auto op = call.sample().handle();
  const ShapeFunction function = find_shape_function(op);
  c10::Stack metas = meta_arguments(call.sample());
  const size_t count = metas.size();
  try {
    const bool answered = function != nullptr && function(op, metas);
    if (!answered) {
      EXPECT_EQ(metas.size(), count) << "declined but changed the stack: " << call.where();
      if (!op.hasKernelForDispatchKey(c10::DispatchKey::Meta)) return;  // who asks has it run, or taken apart
      op.callBoxed(metas);
    }
    const Tensors given = tensors_of(metas);
    EXPECT_EQ(described(call.results()), described(given))
        << (answered ? "by shape function, " : "by Meta kernel, ") << call.where();
    for (const at::Tensor& tensor : given) EXPECT_TRUE(!tensor.defined() || tensor.is_meta()) << call.where();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "by shapes, " << call.where() << std::string(error.what()).substr(0, 300);
  }
}

void expect_shapes_match(const Samples& samples) {
  for (size_t i = 0; i < samples.size(); ++i) judge_by_shapes(SampledCall(samples[i], "", static_cast<int>(i)));
}

std::set<std::string> operators_answered(const Samples& samples) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  std::set<std::string> answered;
  for (const OpSample& sample : samples) {
    const ShapeFunction function = find_shape_function(sample.handle());
    if (function == nullptr || answered.contains(sample.op)) continue;
    c10::Stack metas = meta_arguments(sample);
    try {
      if (function(sample.handle(), metas)) answered.insert(sample.op);
    } catch (const std::exception&) {
      if (!sample.may_be_refused) throw;
    }
  }
  return answered;
}

}  // namespace diptych::test
