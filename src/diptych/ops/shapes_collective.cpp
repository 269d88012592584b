// Shapes of c10d's functional collectives, whose own kernels would call the other processes for meta tensors too.
#include <fmt/format.h>
#include "diptych/base/error.h"
#include "diptych/ops/shapes_table.h"

namespace diptych::detail {
namespace {

using Arguments = c10::ArrayRef<c10::IValue>;

// all_reduce, broadcast: a contiguous copy.
bool copy(Arguments arguments, ResultShape& result) {
  const at::Tensor& input = arguments[0].toTensor();
  return give_empty(result, input.sizes(), input.scalar_type());
}

// wait_tensor: its argument.
bool same(Arguments arguments, ResultShape& result) {
  const at::Tensor& input = arguments[0].toTensor();
  return give_strided(result, input.sizes(), input.strides(), input.scalar_type());
}

bool gathered(Arguments arguments, ResultShape& result) {
  const at::Tensor& input = arguments[0].toTensor();
  TORCH_CHECK(input.dim() > 0, "all_gather_into_tensor takes a tensor of one dimension at least");
  auto sizes = input.sizes().vec();
  sizes[0] *= arguments[1].toInt();
  return give_empty(result, sizes, input.scalar_type());
}

bool scattered(Arguments arguments, ResultShape& result) {
  const at::Tensor& input = arguments[0].toTensor();
  const int64_t processes = arguments[2].toInt();
  TORCH_CHECK(input.dim() > 0 && input.size(0) % processes == 0, "reduce_scatter_tensor over ", processes,
              " processes takes a first dimension that divides by them, got ", input.sizes());
  auto sizes = input.sizes().vec();
  sizes[0] /= processes;
  return give_empty(result, sizes, input.scalar_type());
}

bool refuse(const c10::OperatorHandle& op, c10::Stack& /*stack*/) {
  throw_user_error(fmt::format(
      "[trace] {} has no shape rule, and running its kernel would contact the other processes; use all_reduce, "
      "broadcast, all_gather_into_tensor or reduce_scatter_tensor, or call it outside the traced function",
      c10::toString(op.operator_name())));
}

}  // namespace

ShapeRows collective_shapes() {
  return {
      quick_row<copy>("_c10d_functional::all_reduce"),
      quick_row<copy>("_c10d_functional::broadcast"),
      quick_row<gathered>("_c10d_functional::all_gather_into_tensor"),
      quick_row<scattered>("_c10d_functional::reduce_scatter_tensor"),
      quick_row<same>("_c10d_functional::wait_tensor"),
      {"_c10d_functional::all_gather_into_tensor_coalesced", &refuse},
      {"_c10d_functional::all_reduce_coalesced", &refuse},
      {"_c10d_functional::all_to_all_single", &refuse},
      {"_c10d_functional::batch_p2p_ops", &refuse},
      {"_c10d_functional::irecv", &refuse},
      {"_c10d_functional::isend", &refuse},
      {"_c10d_functional::reduce_scatter_tensor_coalesced", &refuse},
  };
}

}  // namespace diptych::detail
