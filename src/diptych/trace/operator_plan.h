// What a trace must know of an operator, gathered once per process from its schema, its registrations and the tables
// of ops/.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <vector>

#include "diptych/ops/dispatch_keys.h"
#include "diptych/ops/operand_checks.h"
#include "diptych/ops/shapes.h"
#include "diptych/ops/trace_traits.h"

namespace diptych::detail {

/// Facts of one operator that every call of it needs.
struct OperatorPlan {
  std::vector<bool> takes_tensor;  ///< per argument: Tensor or Tensor?
  std::vector<bool> takes_list;    ///< per argument: Tensor[] or Tensor?[]
  int device_argument = -1;
  int dtype_argument = -1;  ///< of the result, which need not be given
  size_t num_out = 0;       ///< how many arguments, the last ones, are the tensors that the results are written to
  bool mutates = false;
  std::vector<bool> writes;         ///< per argument: its elements are written to; empty where none are
  bool reads_values = false;        ///< the result's shape, or a number, depends on the tensors' values
  bool may_select_by_mask = false;  ///< the same, but only where an index is a mask
  bool draws_random = false;        ///< may draw from a generator
  bool has_meta_kernel = false;     ///< of C++ or of Python
  bool has_python_meta_kernel = false;
  const c10::KernelFunction* meta_kernel = nullptr;  ///< of a native operator: see Note [Kernels for shapes]
  bool changes_storage = false;      ///< replaces or resizes a storage, which a graph can't hold (set_, resize_)
  bool has_hidden_aliases = false;   ///< mutates or returns views, and functionalization can't tell of what
  bool takes_process_group = false;  ///< communicates on its own, unlike functional collectives
  bool is_native = false;            ///< LibTorch's own, not a library's
  bool selects_backend = false;      ///< a factory: see Note [The recording key]
  bool is_composite = false;         ///< decomposed by autograd: its inner operators pass the front key too
  bool is_view = false;
  bool is_inverse_view = false;  ///< functionalization writes new elements of a view into its base with it
  bool reinterprets = false;     ///< a view that shows elements as their conjugates, or as another dtype
  bool stops_gradient = false;   ///< detach
  bool is_pointwise = false;
  bool fills = false;  ///< writes one value to all elements of its first argument, and reads none
  WriteBack write_back = WriteBack::kByElement;  ///< of a view
  TraceTrait trait = TraceTrait::kNone;
  std::optional<HiddenMutation> hidden_mutation;
  QuickShape quick_shape = nullptr;
  ShapeFunction shape = nullptr;
  OperandCheck check = nullptr;  ///< before the shape; a quick shape makes it itself
};

/// Returns the plan of `op`, made when it is first asked for. Threads: any; the reference stays valid.
const OperatorPlan& plan_for(const c10::OperatorHandle& op);

/// Has a call that came to kFakeKey with `keys` go on to the backends.
void redispatch_below(const c10::OperatorHandle& op, const OperatorPlan& plan, c10::DispatchKeySet keys,
                      torch::jit::Stack* stack);

}  // namespace diptych::detail
