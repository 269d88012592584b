#include "diptych/hops/transforms/select_elements.h"

#include <ATen/ops/where.h>

namespace diptych::detail {

SelectElements::SelectElements(at::Tensor chosen)
    : chosen_(std::move(chosen)),
      first_(chosen_.size(0) > 0 ? chosen_.to(at::kByte).argmax().reshape({1}) : at::Tensor()) {}

at::Tensor SelectElements::choose(const at::Tensor& yes, const at::Tensor& no) const {
  std::vector<int64_t> sizes(static_cast<size_t>(yes.dim()), 1);
  sizes[0] = chosen_.size(0);
  return at::where(chosen_.reshape(sizes), yes, no);
}

at::Tensor SelectElements::or_another(const at::Tensor& batch) const {
  if (!first_.defined()) return batch;
  return choose(batch, batch.detach().index_select(0, first_).expand_as(batch));
}

}  // namespace diptych::detail
