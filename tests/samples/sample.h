// The operator table of the tests: sample arguments for ATen operators, as boxed stacks of real CPU tensors. A test
// takes the samples of a family and runs each through whatever it compares with eager.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <limits>
#include <string>
#include <vector>

#include "testing/tensors.h"

namespace diptych::test {

using testing::Tensors;

/// One call: an operator and all its arguments.
struct OpSample {
  std::string op;  ///< "aten.add.Tensor"
  c10::Stack arguments;
  std::string note;  ///< what is special about these arguments, for failure messages
  /// Whether eager's numbers mean nothing, as where it takes what lies otherwise for dense.
  bool is_for_shapes = false;
  bool may_be_refused = false;  ///< whether eager may have no such call, as of a dtype
  bool is_fixed = false;        ///< whether every run takes it, as what rotation alone would find is found by it

  c10::OperatorHandle handle() const;
};

/// Makes a sample; arguments left out take the schema's defaults.
OpSample sample(const std::string& op, std::vector<c10::IValue> arguments, const std::string& note = "");

/// LibTorch has one thread in its scope: calls of samples are small.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int threads_;
};

using Samples = std::vector<OpSample>;
/// Appends one without a note; with `rest`, of tensors and then constants.
void add(Samples& samples, const std::string& op, std::vector<c10::IValue> arguments);
void add(Samples& samples, const std::string& op, const Tensors& tensors, const std::vector<c10::IValue>& rest);
/// What eager makes of it.
c10::Stack eager(const OpSample& sample);

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
using Ints = std::vector<int64_t>;
/// A list in which an undefined tensor is None.
c10::IValue optional_tensors(const Tensors& tensors);
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
at::Tensor channels_last(const at::Tensor& tensor);
/// Whether a tensor is a number that stands for one, as in a trace.
bool is_number(const at::Tensor& tensor);

}  // namespace diptych::test
