#include "diptych/trace/one_device.h"

#include <string_view>
#include <unordered_set>

#include "diptych/ops/tags.h"

namespace diptych::detail {
namespace {

// They copy from one device to another, take indices or lengths of the host, or read only sizes of an operand. Source:
// `device_check: NoCheck` in LibTorch's native_functions.yaml, without those whose kernels check (TensorIterator).
bool takes_several_devices(std::string_view name) {
  static const auto* names = new std::unordered_set<std::string_view>{
      "aten::copy",
      "aten::copy_",
      "aten::_copy_from",
      "aten::index",
      "aten::_unsafe_index",
      "aten::index_put",
      "aten::index_put_",
      "aten::_index_put_impl",
      "aten::_index_put_impl_",
      "aten::_unsafe_index_put",
      "aten::slice_scatter",
      "aten::select_scatter",
      "aten::diagonal_scatter",
      "aten::as_strided_scatter",
      "aten::slice_inverse",
      "aten::_pack_padded_sequence",
      "aten::_pack_padded_sequence_backward",
      "aten::is_same_size",
      "aten::set",
      "aten::set_",
  };
  return name.starts_with("aten::_foreach_") || name.starts_with("aten::_fused_") || names->count(name) != 0;
}

}  // namespace

void check_one_device(const c10::OperatorHandle& op, c10::Device first, c10::Device other) {
  if (!has_tag(Op(op), Tag::kNative) || takes_several_devices(op.operator_name().name)) return;
  TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ", first, " and ",
              other, "! (when recording ", op.operator_name(), ")");
}

}  // namespace diptych::detail
