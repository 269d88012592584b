#include "diptych/hops/flat_function.h"

#include "diptych/base/check.h"

namespace diptych::detail {

void StandInFiller::tensor(const Path&, at::Tensor& leaf) {
  if (next_ < tensors_.size()) leaf = tensors_[next_];
  ++next_;
}

void StandInFiller::module_tensor(const Path&, const at::Tensor&) { ++next_; }

void StandInFiller::check_count() const {
  DIPTYCH_CHECK(next_ == tensors_.size(),
                "[capture] the arguments hold {} tensors, expected {} as at the call; the function, or another thread, "
                "has changed what they lead to",
                next_, tensors_.size());
}

FlatResult flat_result(Flattened&& flat) {
  note_subclass(flat.spec);
  std::vector<std::string> paths = flat.spec.tensor_paths();
  if (paths.size() == 1 && paths[0].empty()) paths[0] = "out";  // the result is a tensor itself
  return {std::move(flat.tensors), std::move(paths)};
}

}  // namespace diptych::detail
