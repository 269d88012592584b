// Samples whose distribution depends on elements: numbers that do not, and arithmetic. The generator is read as the CPU
// kernels read it.
#include <ATen/ExpandUtils.h>

#include "diptych/ops/decompositions.h"

namespace diptych::detail {
namespace {

// Normal numbers in a contiguous tensor. Source: ATen's DistributionTemplates.h, normal_impl_.
Expr normal_numbers(const Call& call, const std::vector<int64_t>& sizes, const TensorMeta& like, double deviation,
                    size_t generator) {
  Emitter& emitter = call.emitter();
  const Value empty = emitter.call("aten.empty.memory_format", {c10::IValue(sizes), c10::IValue(like.dtype),
                                                                c10::IValue(), c10::IValue(like.device)});
  return call.expr(emitter.call("aten.normal_functional",
                                {empty, c10::IValue(0.0), c10::IValue(deviation), call.constant(generator)}));
}

std::vector<Value> normal_about_tensor(const Call& call) {
  const Expr mean = call.tensor(0);
  if (!at::isFloatingType(mean.meta().dtype)) return {};
  return {(normal_numbers(call, mean.meta().size_hints(), mean.meta(), call.number(1), 2) + mean).value};
}

std::vector<Value> normal_about_number(const Call& call) {
  const Expr deviation = call.tensor(1);
  if (!at::isFloatingType(deviation.meta().dtype)) return {};
  const Expr drawn = normal_numbers(call, deviation.meta().size_hints(), deviation.meta(), 1.0, 2);
  return {(drawn * deviation + call.number(0)).value};
}

std::vector<Value> normal_of_tensors(const Call& call) {
  const Expr mean = call.tensor(0), deviation = call.tensor(1);
  const bool is_plain = at::isFloatingType(mean.meta().dtype) && mean.meta().dtype == deviation.meta().dtype;
  if (!is_plain) return {};
  const auto sizes = at::infer_size(mean.meta().size_hints(), deviation.meta().size_hints());
  return {(normal_numbers(call, sizes, mean.meta(), 1.0, 2) * deviation + mean).value};
}

// 1 where a uniform number is less than the probability. The kernel draws in the dtype of the probabilities, in f32 for
// half types, in the order of the memory of what it writes: `format` is that of the result, like the first argument.
// Source: ATen's DistributionTemplates.h, bernoulli_kernel.
std::vector<Value> sample_truth(const Call& call, Expr probability, size_t generator, const c10::IValue& format) {
  const auto dtype = probability.meta().dtype;
  if (!at::isFloatingType(dtype)) return {};
  const c10::IValue wide(compute_dtype(dtype));
  const Expr self = call.tensor(0);
  const c10::IValue& from = call.constant(generator);
  const c10::IValue none;
  const Expr drawn = from.isNone() ? self.apply("aten.rand_like", {wide, none, none, none, format})
                                   : self.apply("aten.rand_like.generator", {from, wide, none, none, none, format});
  return call.result(drawn.apply("aten.lt.Tensor", {probability.to(compute_dtype(dtype)).value}));
}

std::vector<Value> bernoulli(const Call& call) {
  return sample_truth(call, call.tensor(0), 1, c10::IValue(at::MemoryFormat::Contiguous));
}
std::vector<Value> bernoulli_tensor(const Call& call) { return sample_truth(call, call.tensor(1), 2, c10::IValue()); }

}  // namespace

std::vector<Decomposition> random_decompositions() {
  return {
      {"aten.normal.Tensor_float", "random", normal_about_tensor},
      {"aten.normal.float_Tensor", "random", normal_about_number},
      {"aten.normal.Tensor_Tensor", "random", normal_of_tensors},
      {"aten.bernoulli", "random", bernoulli},
      {"aten.bernoulli.Tensor", "random", bernoulli_tensor},
  };
}

}  // namespace diptych::detail
