// What the recorder must know of an operator, worked out once per process.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

#include <vector>

#include "diptych/ops/shapes.h"

namespace diptych::detail {

/// When an operator with undeclared mutation mutates: if the argument it mutates is defined and the condition is true.
struct HiddenMutation {
  int mutated_argument = -1;
  int condition_argument = -1;
};

/// Facts of one operator that every record of it needs.
struct OperatorPlan {
  std::vector<bool> takes_tensor;  ///< per argument: Tensor or Tensor?
  std::vector<bool> takes_list;    ///< per argument: Tensor[] or Tensor?[]
  int device_argument = -1;
  size_t num_out = 0;  ///< tensors at the end of the arguments that the results are written to, and are
  bool mutates = false;
  std::vector<bool> writes;         ///< per argument: its elements are written to; empty where none are
  bool reads_values = false;        ///< the result's shape, or a number, depends on the tensors' values
  bool may_select_by_mask = false;  ///< so only where an index is a mask
  bool draws_random = false;        ///< may draw from a generator
  bool is_bernoulli = false;        ///< the functional form of bernoulli_
  bool has_meta_kernel = false;     ///< of C++ or of Python
  bool has_python_meta_kernel = false;
  const c10::KernelFunction* meta_kernel = nullptr;  ///< of a native operator: see Note [Kernels for shapes]
  bool refused = false;             ///< changes storage in a way that a graph can't hold (set_, resize_)
  bool has_hidden_aliases = false;  ///< mutates or gives views, and functionalization can't tell of what
  bool is_native = false;           ///< LibTorch's own, not a library's
  bool is_composite = false;        ///< decomposed by autograd: its inner operators pass the front key too
  bool is_copy = false;             ///< aten::copy, the functional form of copy_
  bool is_cast = false;             ///< aten::_to_copy
  bool is_zero_tensor = false;      ///< makes a tensor without memory, which no kernel may write to
  bool is_view_as_real = false;
  bool is_view = false;
  bool reads_otherwise = false;  ///< a view that shows elements as their conjugates, or as another dtype
  bool is_as_strided = false;
  bool is_unfold = false;
  bool is_expand = false;
  bool fills = false;            ///< writes one value to all elements of its first argument, and reads none
  bool is_lift = false;          ///< makes a tensor of a literal one of the trace
  bool is_inverse_view = false;  ///< what functionalization writes a view's new value back into its base with
  bool stops_gradient = false;   ///< detach
  QuickShape quick_shape = nullptr;
  ShapeFunction shape = nullptr;
  std::optional<c10::OperatorHandle> replacement;  ///< the operator with declared mutation that stands for this one
  HiddenMutation hidden_mutation;
};

/// The plan of `op`; made when first asked for. Threads: any; the reference stays valid.
const OperatorPlan& plan_for(const c10::OperatorHandle& op);

}  // namespace diptych::detail
