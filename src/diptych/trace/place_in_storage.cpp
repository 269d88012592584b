#include "diptych/trace/place_in_storage.h"

#include <ATen/EmptyTensor.h>
#include <ATen/FunctionalStorageImpl.h>
#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/ops/alias.h>

#include "diptych/base/check.h"
#include "diptych/ops/dispatch_keys.h"
#include "diptych/trace/location.h"
#include "diptych/trace/memory_overlap.h"
#include "diptych/trace/recorder.h"
#include "diptych/trace/view_steps.h"

namespace diptych::detail {
namespace {

namespace fn = at::functionalization;

/// Takes views of a meta tensor. It keeps the conjugate and negative bits apart, since some views can't be taken of a
/// tensor that has one.
class ViewTaker {
 public:
  ViewTaker(const at::Tensor& start, bool is_conjugate, bool is_negative)
      : is_conjugate_(is_conjugate), is_negative_(is_negative) {
    const BelowTraceGuard guard;
    meta_ = at::alias(start);
    take_bits();
  }

  void take(const ViewStep& step) {
    const BelowTraceGuard guard;
    meta_ = step->forward(meta_);
    take_bits();
  }

  StoragePlace place() const { return {meta_, is_conjugate_, is_negative_}; }

 private:
  void take_bits() {
    is_conjugate_ = meta_.is_complex() && is_conjugate_ != meta_.is_conj();
    is_negative_ = is_negative_ != meta_.is_neg();
    meta_._set_conj(false);
    meta_._set_neg(false);
  }

  at::Tensor meta_;
  bool is_conjugate_;
  bool is_negative_;
};

ViewTaker start_of(const Primal* primal, const at::Tensor& meta) {
  const bool is_known = primal != nullptr && primal->real.defined();
  return {meta, is_known && primal->real.is_conj(), is_known && primal->real.is_neg()};
}

}  // namespace

StoragePlace place_in_storage(const at::Tensor& stand_in) {
  if (!fn::impl::isFunctionalTensor(stand_in)) return {as_fake(stand_in)->meta()};
  auto* storage = static_cast<fn::FunctionalStorageImpl*>(stand_in.storage().unsafeGetStorageImpl());
  ViewTaker views = start_of(Recorder::current()->primal_table().behind(stand_in), as_fake(storage->base())->meta());
  for (const ViewStep& step : steps_of(stand_in)) views.take(step);
  return views.place();
}

// Strides may lead to elements before and behind a primal in its storage. The graph does not have those: its input is
// the primal alone, or the primal's new value once it has been changed.
void check_strided(const Primal& primal, c10::ArrayRef<c10::IValue> arguments) {
  const at::Tensor whole = meta_like(primal.real);
  ViewTaker views = start_of(&primal, whole);
  const auto& steps = steps_of(arguments[0].toTensor());
  for (size_t i = steps_of(primal.stand_in).size(); i < steps.size(); ++i) views.take(steps[i]);
  const at::Tensor from = views.place().meta;
  const at::Tensor part =
      at::detail::empty_strided_meta(arguments[1].toIntVector(), arguments[2].toIntVector(), from.scalar_type());
  const bool is_counted = !arguments[3].isNone();
  part.unsafeGetTensorImpl()->set_storage_offset(is_counted ? arguments[3].toInt() : from.storage_offset());
  DIPTYCH_CHECK(has_places_of(whole, part),
                "[trace] {} reaches elements of the storage of '{}' that are not elements of that tensor; pass the "
                "tensor that has them",
                with_place("as_strided"), primal.slot.path);
}

}  // namespace diptych::detail
