#include "diptych/trace/checkpoint_region.h"

#include "diptych/base/error.h"
#include "diptych/trace/location.h"
#include "diptych/trace/recorder.h"

namespace diptych {
namespace detail {

void Recorder::enter_region(CheckpointPolicy policy) {
  DIPTYCH_CHECK(
      open_regions_.size() < RegionMarks::kMaxDepth,
      "[checkpoint] got a region inside {} others in scope '{}', expected at most {}; take checkpoints inside "
      "checkpoints apart",
      open_regions_.size(), current_place().str(), RegionMarks::kMaxDepth - 1);
  const auto name = fmt::format("checkpoint.{}", regions_.regions.size());
  const InternedString path(open_regions_.empty() ? name : open_regions_.back().str() + "/" + name);
  regions_.regions.push_back({path, std::move(policy)});
  open_regions_.push_back(path);
}

void Recorder::name_residual(const at::Tensor& tensor, std::string_view name) {
  const Value value = owns(tensor) ? value_of(tensor) : Value{};
  const auto& info = value ? graph_.info(value) : ValueInfo{};
  if (info.node < 0) {
    regions_.input_names.emplace_back(name);
    return;
  }
  Provenance provenance = graph_.nodes()[info.node].provenance;
  if (has_residual_name(provenance.residual_name, name)) return;
  const auto& known = provenance.residual_name.str();
  provenance.residual_name = InternedString(known.empty() ? std::string(name) : fmt::format("{},{}", known, name));
  graph_.set_provenance(info.node, provenance);
}

}  // namespace detail

CheckpointRegion::CheckpointRegion(CheckpointPolicy policy) : recorder_(detail::Recorder::current()) {
  if (recorder_ != nullptr) recorder_->enter_region(std::move(policy));
}

CheckpointRegion::~CheckpointRegion() {
  if (recorder_ != nullptr) recorder_->leave_region();
}

at::Tensor name_residual(const at::Tensor& tensor, std::string_view name) {
  DIPTYCH_CHECK(!name.empty() && name.find(',') == name.npos,
                "[name_residual] got the name '{}', expected one that is not empty and has no comma; rename it", name);
  if (auto* recorder = detail::Recorder::current()) recorder->name_residual(tensor, name);
  return tensor;
}

}  // namespace diptych
