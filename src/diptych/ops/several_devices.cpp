#include "diptych/ops/several_devices.h"

#include <string_view>
#include <unordered_set>

#include "diptych/ops/tags.h"

namespace diptych::detail {

// Source: `device_check: NoCheck` in LibTorch's native_functions.yaml, without those whose kernels check
// (TensorIterator).
bool takes_several_devices(const Op& op) {
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
  if (!has_tag(op, Tag::kNative)) return true;
  const std::string_view name = op.handle().operator_name().name;
  return name.starts_with("aten::_foreach_") || name.starts_with("aten::_fused_") || names->count(name) != 0;
}

}  // namespace diptych::detail
