#include "diptych/trace/checkpoint_region.h"

#include "diptych/base/check.h"
#include "diptych/trace/recorder.h"

namespace diptych {

using namespace detail;
CheckpointRegion::CheckpointRegion(CheckpointPolicy policy) : recorder_(detail::Recorder::current()) {
  if (recorder_ != nullptr) recorder_->provenance().enter_region(std::move(policy));
}

CheckpointRegion::~CheckpointRegion() {
  if (recorder_ != nullptr) recorder_->provenance().leave_region();
}

at::Tensor name_residual(const at::Tensor& tensor, std::string_view name) {
  DIPTYCH_CHECK(!name.empty() && name.find(',') == name.npos,
                "[name_residual] got the name '{}', expected one that is not empty and has no comma; rename it", name);
  if (auto* recorder = detail::Recorder::current()) recorder->name_residual(tensor, name);
  return tensor;
}

}  // namespace diptych
