// Running one program in eager and compiled, side by side, and comparing everything that a caller can see.
#pragma once
#include <gtest/gtest.h>
#include <torch/types.h>

#include <functional>
#include <string>
#include <vector>

#include "diptych/diptych.h"
#include "testing/expect_error.h"
#include "testing/same_tensors.h"

namespace diptych::testing {

using Function = std::function<Tensors(const Tensors&)>;

/// What a caller can see of a call and its backward.
struct Observed {
  Tensors inputs;  ///< after the call
  Tensors outputs;
  std::vector<at::Tensor> grads;  ///< of the leaves, undefined where none came
  std::string error;              ///< of the call or its backward; empty if none
};

struct CheckOptions {
  AotOptions aot = {};
  bool backward = true;
  double tolerance =
      0;          ///< absolute and relative; 0: eager's bits by the interpreter, units in the last place by others
  int calls = 2;  ///< the second call hits the cache
};

/// tensor.is_leaf(), after autograd has brought a view's gradient function up to date, which it otherwise does when it
/// is first asked for it.
bool is_leaf(const at::Tensor& tensor);

/// What differs between the two, one line each that starts with what it is about: "output 1: strides: ...". Empty if a
/// caller can't tell them apart. With a tolerance, it is relative to the element and to the tensor's largest.
std::vector<std::string> differences(const Observed& eager, const Observed& ours, double tolerance);

/// Makes the inputs anew: leaves, then what is derived from them. Must be deterministic.
struct Inputs {
  std::function<Tensors()> leaves;
  std::function<Tensors(const Tensors& leaves)> derive = [](const Tensors& leaves) { return leaves; };
};

/// Expects that `function`, compiled, does to its inputs and returns what it does in eager, gradients of the leaves
/// included, for several calls.
void expect_as_eager(const Inputs& inputs, const Function& function, const CheckOptions& options = {});
/// For a function of plain leaves.
void expect_as_eager(const std::function<Tensors()>& leaves, const Function& function,
                     const CheckOptions& options = {});

/// Expects that `got` does what `expected` does, both called as they are.
void expect_alike(const Inputs& inputs, const Function& expected, const Function& got,
                  const CheckOptions& options = {});
/// The same of `function` compiled.
void expect_compiled_as(const Inputs& inputs, const Function& expected, const Function& function,
                        const CheckOptions& options = {});

/// gradcheck in float64 by central differences of `function` compiled, and of its compiled gradient (gradgradcheck).
/// `inputs` are float64 leaves that require grad.
void expect_gradients_right(const Tensors& inputs, const Function& function, bool second_order = true,
                            const AotOptions& options = {});

/// The same of `function` called as it is.
void expect_derivatives_right(const Tensors& inputs, const Function& function, bool second_order = true);

}  // namespace diptych::testing
