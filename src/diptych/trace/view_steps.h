// The chain of views that a stand-in was taken by, as functionalization keeps it.
#pragma once
#include <ATen/FunctionalTensorWrapper.h>

#include <memory>
#include <vector>

namespace diptych::detail {

/// A step in the chain of views that makes a stand-in.
using ViewStep = std::shared_ptr<at::functionalization::ViewMeta>;

/// Returns the steps of a stand-in, outermost base first. Requires: it is wrapped by functionalization.
inline const std::vector<ViewStep>& steps_of(const at::Tensor& stand_in) {
  return at::functionalization::impl::unsafeGetFunctionalWrapper(stand_in)->view_metas();
}

}  // namespace diptych::detail
