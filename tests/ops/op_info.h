// The operator table of the tests: sample arguments for ATen operators, as boxed stacks of real CPU tensors. A test
// takes the samples of a family and runs each through whatever it compares with eager.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <string>
#include <vector>

namespace diptych::test {

/// One call: an operator and all its arguments.
struct OpSample {
  std::string op;  ///< "aten::add.Tensor"
  c10::Stack arguments;
  std::string note;  ///< what is special about these arguments, for failure messages

  c10::OperatorHandle handle() const;
};

/// Makes a sample; arguments left out take the schema's defaults.
OpSample sample(const std::string& op, std::vector<c10::IValue> arguments, const std::string& note = "");

/// A tensor and how it is laid out.
struct Layout {
  at::Tensor tensor;
  std::string name;
};

/// `tensor` in the layouts that kernels tell apart: contiguous, transposed, with gaps, expanded over the first
/// dimension, channels last (4-d and 5-d), and empty in its first dimension.
std::vector<Layout> layouts(const at::Tensor& tensor);
/// The same without the empty one.
std::vector<Layout> nonempty_layouts(const at::Tensor& tensor);

at::Tensor f32(at::IntArrayRef sizes);  ///< standard normal
at::Tensor f64(at::IntArrayRef sizes);
at::Tensor i64(at::IntArrayRef sizes, int64_t below);  ///< uniform in [0, below)
inline const c10::IValue kNone;
c10::IValue ints(std::vector<int64_t> values);
c10::IValue bools(std::vector<bool> values);
at::Tensor channels_last(const at::Tensor& tensor);

using Samples = std::vector<OpSample>;
Samples pointwise_samples();
Samples activation_samples();
Samples embedding_samples();
Samples norm_samples();
Samples attention_samples();
Samples convolution_samples();
Samples pool_samples();
Samples loss_samples();
Samples recurrent_samples();
Samples reduction_samples();
Samples indexing_samples();
Samples random_samples();
Samples fft_samples();
Samples linalg_samples();
Samples spatial_samples();
/// Operators that have a C++ Meta kernel: matrix products, views, copies.
Samples structured_samples();
Samples all_samples();

}  // namespace diptych::test
