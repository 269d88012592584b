#include "diptych/compile/slot_fit.h"

#include <fmt/ranges.h>

#include "diptych/base/error.h"

namespace diptych::detail {

void check_fits(const char* who, const char* what, size_t index, const Slot& slot, const at::Tensor& tensor,
                const TensorMeta& meta) {
  DIPTYCH_CHECK(tensor.layout() == c10::kStrided,
                "[{}] {} {} ({}) is of layout {}, expected a strided tensor; call to_dense()", who, what, index,
                slot.path, c10::str(tensor.layout()));
  if (tensor.scalar_type() == meta.dtype && tensor.device() == meta.device &&
      tensor.sizes() == c10::IntArrayRef(meta.size_hints())) {
    return;
  }
  throw UserError(
      fmt::format("[{}] {} {} ({}) is {}[{}], expected {}[{}]; convert it, or capture again for such tensors", who,
                  what, index, slot.path, dtype_name(tensor.scalar_type()), fmt::join(tensor.sizes(), ","),
                  dtype_name(meta.dtype), fmt::join(meta.size_hints(), ",")));
}

}  // namespace diptych::detail
