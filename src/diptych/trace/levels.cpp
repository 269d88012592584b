#include "diptych/trace/levels.h"

#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/functorch/DynamicLayer.h>
#include <ATen/functorch/TensorWrapper.h>
#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <variant>

#include "diptych/base/check.h"
#include "diptych/trace/outer_levels.h"

namespace diptych::detail {
namespace {

namespace ft = at::functorch;
using Kind = ft::TransformType;

// How many levels are around each of the traces that the thread is inside of.
thread_local std::vector<size_t> outer_level_counts;

const ft::DynamicLayer& innermost() { return ft::getDynamicLayerStack().back(); }

}  // namespace

bool levels_are_active() {
  return c10::impl::tls_local_dispatch_key_set().included_.has(c10::DispatchKey::FuncTorchDynamicLayerFrontMode) &&
         !ft::getDynamicLayerStack().empty();
}

TransformLevel innermost_level() {
  const ft::DynamicLayer& layer = innermost();
  TransformLevel level{layer.key(), layer.layerId()};
  if (level.kind == Kind::Vmap) level.batch = {layer.batchSize().expect_int(), layer.randomness()};
  return level;
}

Unwrapped unwrap(const at::Tensor& given, const TransformLevel& level) {
  if (!given.defined()) return {given};
  const at::Tensor tensor = ft::unwrapIfDead(given);
  if (level.kind == Kind::Vmap) {
    const auto* batched = ft::maybeGetBatchedImpl(tensor);
    if (batched == nullptr || batched->level() != level.id) return {tensor};
    return {batched->value(), batched->bdim(), true};
  }
  const auto* wrapper = ft::maybeGetTensorWrapper(tensor);
  if (wrapper == nullptr || wrapper->level() != level.id) return {tensor};
  return {wrapper->value(), std::nullopt, true};
}

at::Tensor value_of_dead(const at::Tensor& tensor) { return tensor.defined() ? ft::unwrapIfDead(tensor) : tensor; }

at::Tensor wrap(const at::Tensor& value, const TransformLevel& level) {
  if (!value.defined()) return value;
  return level.kind == Kind::Vmap ? ft::makeBatched(value, 0, level.id) : ft::makeTensorWrapper(value, level.id);
}

BelowLevel::BelowLevel() : layer_(std::make_unique<ft::DynamicLayer>(ft::popDynamicLayer())) {
  const auto& meta = layer_->interpreter().meta();
  if (const auto* grad = std::get_if<ft::GradInterpreterMeta>(&meta)) {
    if (!grad->prevGradMode_) grad_mode_.emplace(false);
  } else if (const auto* jvp = std::get_if<ft::JvpInterpreterMeta>(&meta)) {
    if (!jvp->prevFwdGradMode_) forward_grad_mode_.emplace(false);
  }
}

BelowLevel::~BelowLevel() { ft::pushDynamicLayer(std::move(*layer_)); }

InnerLevel::InnerLevel(const Batch& batch) {
  level_ = {Kind::Vmap, ft::initAndPushDynamicLayer(Kind::Vmap, c10::SymInt(batch.size), batch.randomness), batch};
}

InnerLevel::InnerLevel(Kind kind) {
  DIPTYCH_ASSERT(kind == Kind::Grad || kind == Kind::Jvp, "a level without a batch is one of grad or jvp");
  const bool grad_mode = c10::GradMode::is_enabled();
  const bool forward_mode = c10::AutogradState::get_tls_state().get_fw_grad_mode();
  level_.kind = kind;
  level_.id = kind == Kind::Grad
                  ? ft::initAndPushDynamicLayer(kind, std::nullopt, std::nullopt, grad_mode)
                  : ft::initAndPushDynamicLayer(kind, std::nullopt, std::nullopt, std::nullopt, forward_mode);
}

InnerLevel::~InnerLevel() { ft::popDynamicLayerAndDeleteMetadata(); }

// The layers stay where they are, so that a level that begins in the trace gets a number of its own, by which its
// wrappers are told from those of the levels around: see is_of_outer_levels(). It is not in force, as its number is not
// the first, and a trace that meets its wrappers is given up.
NoLevels::NoLevels() : layers_(levels_are_active() ? ft::getDynamicLayerStack() : std::vector<ft::DynamicLayer>()) {
  outer_level_counts.push_back(ft::getDynamicLayerStack().size());
  if (!layers_.empty()) ft::setDynamicLayerFrontBackKeysIncluded(false);
}

NoLevels::~NoLevels() {
  outer_level_counts.pop_back();
  if (!layers_.empty()) ft::setDynamicLayerFrontBackKeysIncluded(true);
}

bool is_of_outer_levels(const at::Tensor& tensor) {
  const auto count = static_cast<int64_t>(outer_level_counts.empty() ? 0 : outer_level_counts.back());
  if (const auto* batched = ft::maybeGetBatchedImpl(tensor)) return batched->level() <= count;
  const auto* wrapper = ft::maybeGetTensorWrapper(tensor);
  return wrapper == nullptr || (wrapper->level() && *wrapper->level() <= count);
}

at::Tensor known_value(const at::Tensor& tensor) {
  if (ft::isBatchedTensor(tensor)) return {};
  const auto* wrapper = ft::maybeGetTensorWrapper(tensor);
  return wrapper == nullptr ? tensor : known_value(wrapper->value());
}

WithoutOuterLevels::WithoutOuterLevels() : layers_(ft::getDynamicLayerStack()) { ft::setDynamicLayerStack({}); }

WithoutOuterLevels::~WithoutOuterLevels() { ft::setDynamicLayerStack(layers_); }

}  // namespace diptych::detail
