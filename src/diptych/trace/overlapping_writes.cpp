// Note [Overlapping writes]
// Eager refuses most writes to a tensor of which several elements lie in one place, as expand makes them, and to one
// that partly shares memory with another operand; which operators look is theirs to say, so they are asked, on an
// example of the same geometry. What they accept is right in the graph as well: a fill, which may write a place twice,
// and a write to elements that lie apart, taken through a view whose elements did not. Functionalization would write
// either back through each view in turn and add up what lies in one place. Here the same elements are taken from the
// base by strides, each once, and the operator is called on those. What else eager accepts depends on the order in
// which its kernels write, and is refused. ATen takes operands with gaps to be too hard to tell and lets them pass; the
// places of their elements tell.
#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <map>

#include "diptych/base/error.h"
#include "diptych/ops/tags.h"
#include "diptych/trace/dispatch_keys.h"
#include "diptych/trace/exchange_tensors.h"
#include "diptych/trace/location.h"
#include "diptych/trace/memory_overlap.h"
#include "diptych/trace/place_in_storage.h"
#include "diptych/trace/recorder.h"
#include "diptych/trace/stack_tensors.h"

namespace diptych::detail {
namespace {

namespace fn = at::functionalization;

using TensorList = std::vector<at::Tensor>;

// The fake of a stand-in as it is now, or null for what is none.
const FakeTensorImpl* synced_fake(const at::Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  if (fn::impl::isFunctionalTensor(tensor)) fn::impl::sync(tensor);
  return as_fake(tensor);
}

/// A tensor among an operator's arguments.
struct Given {
  at::Tensor tensor;
  size_t argument;
  size_t element;  ///< of a list
  bool is_written;
};

std::vector<Given> tensors_among(const OperatorPlan& plan, const torch::jit::Stack& stack) {
  std::vector<Given> given;
  const size_t begin = stack.size() - plan.takes_tensor.size();
  for (size_t i = 0; i < plan.takes_tensor.size(); ++i) {
    const auto& argument = stack[begin + i];
    const auto add = [&](const at::Tensor& tensor, size_t element) {
      if (tensor.defined()) given.push_back({tensor, i, element, static_cast<bool>(plan.writes[i])});
    };
    if (argument.isTensor()) add(argument.toTensor(), 0);
    if (!plan.takes_list[i] || argument.isNone()) continue;
    const auto list = optional_tensors(argument);
    for (size_t k = 0; k < list.size(); ++k) add(list[k].value_or(at::Tensor()), k);
  }
  return given;
}

bool are_views_of_one(const at::Tensor& a, const at::Tensor& b) {
  return fn::impl::isFunctionalTensor(a) && fn::impl::isFunctionalTensor(b) && a.storage().is_alias_of(b.storage());
}

// ATen tells by the storages whether two tensors may overlap: not where memory was lent to several.
bool have_one_storage(const at::Tensor& a, const at::Tensor& b) {
  const auto* left = Recorder::current()->primal_behind(a);
  const auto* right = Recorder::current()->primal_behind(b);
  if (left == nullptr || right == nullptr || left == right) return true;
  return !left->real.defined() || !right->real.defined() || left->real.storage().is_alias_of(right->real.storage());
}

// Whether two tensors are the same elements in the same order. Dimensions of one element say nothing.
bool lie_alike(const at::Tensor& a, const at::Tensor& b) {
  const auto begin = [](const at::Tensor& tensor) {
    return tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize());
  };
  const auto steps = [](const at::Tensor& tensor) {
    std::vector<std::pair<int64_t, int64_t>> steps;
    for (int64_t i = 0; i < tensor.dim(); ++i) {
      if (tensor.size(i) > 1) steps.emplace_back(tensor.size(i), tensor.stride(i));
    }
    return steps;
  };
  return a.itemsize() == b.itemsize() && begin(a) == begin(b) && steps(a) == steps(b);
}

// Whether what an operator reads of one element it may write to others, before it has read those. LibTorch's tags tell
// of most that do not; these are all that look at no overlap.
bool mixes_elements(const c10::OperatorHandle& op) {
  static constexpr std::string_view kMixing[] = {"aten::addmm_",   "aten::addmv_", "aten::addbmm_",
                                                 "aten::baddbmm_", "aten::addr_",  "aten::masked_scatter_"};
  const bool is_named = std::find(std::begin(kMixing), std::end(kMixing), op.operator_name().name) != std::end(kMixing);
  return is_named || has_tag(Op(op), Tag::kComputeHeavy);
}

bool lies_in_one_place(const at::Tensor& tensor) {
  const FakeTensorImpl* fake = synced_fake(tensor);
  return fake != nullptr && at::has_internal_overlap(const_cast<FakeTensorImpl*>(fake)) == at::MemOverlap::Yes;
}

/// Real tensors of no meaning that lie as the stand-ins lie, those of one storage in one.
class Example {
 public:
  at::Tensor of(const at::Tensor& stand_in) {
    if (!stand_in.defined() || !is_stand_in(stand_in)) return stand_in;
    const at::Tensor place = place_in_storage(stand_in).meta;
    const auto bytes = static_cast<int64_t>(place.storage().nbytes());
    at::Tensor& memory = memory_[stand_in.storage().unsafeGetStorageImpl()];
    if (!memory.defined()) memory = at::zeros({bytes}, at::dtype(at::kByte).device(stand_in.device()));
    at::Tensor example = at::empty({0}, memory.options().dtype(place.dtype()));
    return example.set_(memory.storage(), place.storage_offset(), place.sizes(), place.strides());
  }

 private:
  std::map<const c10::StorageImpl*, at::Tensor> memory_;
};

[[noreturn]] void refuse_write(const c10::OperatorHandle& op) {
  throw_user_error(
      fmt::format("[trace] {} in scope '{}' changes a view whose elements overlap, or were taken from such a view, as "
                  "expand, unfold and as_strided make them; change the tensor under it, or a clone of it",
                  c10::toString(op.operator_name()), current_place().str()));
}

[[noreturn]] void refuse_operands(const c10::OperatorHandle& op) {
  throw_user_error(
      fmt::format("[trace] {} in scope '{}' changes memory that another operand sees a part of, so that what it gives "
                  "depends on the order in which its kernel goes; pass it a clone of that operand",
                  c10::toString(op.operator_name()), current_place().str()));
}

// Calls the operator on an example and throws what it says of overlap; what else it may say is about other things than
// zeros.
void ask_kernel(const c10::OperatorHandle& op, const OperatorPlan& plan, const torch::jit::Stack& stack) {
  torch::jit::Stack arguments(stack.end() - static_cast<int64_t>(plan.takes_tensor.size()), stack.end());
  const PauseTraceGuard pause;
  const at::NoGradGuard no_grad;
  Example example;
  exchange_each(plan, arguments, [&](const at::Tensor& tensor) { return example.of(tensor); });
  try {
    op.callBoxed(&arguments);
  } catch (const c10::Error& error) {
    const std::string_view text = error.what_without_backtrace();
    if (text.find("single memory location") != std::string_view::npos) throw;
  }
}

// Operands are right in the graph, which reads them all before it writes, where they share nothing with what is written
// or where each element is read for itself alone.
void check_operands(const c10::OperatorHandle& op, const OperatorPlan& plan, const torch::jit::Stack& stack,
                    const std::vector<Given>& given) {
  for (const Given& written : given) {
    for (const Given& read : given) {
      const bool is_itself = read.argument == written.argument && read.element == written.element;
      if (!written.is_written || is_itself || !are_views_of_one(written.tensor, read.tensor)) continue;
      const Place to = place_in_storage(written.tensor), from = place_in_storage(read.tensor);
      if (to.is_lazy || from.is_lazy || !share_places(to.meta, from.meta)) continue;
      const bool is_own = read.element == written.element && lie_alike(to.meta, from.meta) && !mixes_elements(op);
      if (is_own && has_tag(Op(op), Tag::kPointwise) && to.meta.strides() == from.meta.strides()) continue;
      if (have_one_storage(written.tensor, read.tensor)) ask_kernel(op, plan, stack);
      if (!is_own && !plan.fills) refuse_operands(op);
    }
  }
}

}  // namespace

// What a chain of views starts from is a tensor without views, and only some views are written back through.
bool Recorder::can_write_back(const at::Tensor& view) const {
  if (unwritable_views_.empty() || !fn::impl::isFunctionalTensor(view)) return true;
  const auto& steps = fn::impl::unsafeGetFunctionalWrapper(view)->view_metas();
  return std::none_of(steps.begin(), steps.end(), [&](const ViewStep& step) { return unwritable_views_.count(step); });
}

// Undefined where strides do not tell: the base is no plain tensor, or of another dtype. `once`: of elements that lie
// in one place along a dimension, the first.
at::Tensor Recorder::same_elements_of_base(const at::Tensor& view, bool once) {
  at::Tensor base = autograd_base(view);
  const FakeTensorImpl* fake = synced_fake(view);
  const FakeTensorImpl* base_fake = synced_fake(base);
  if (!fn::impl::isFunctionalTensor(base) || !base.storage().is_alias_of(view.storage())) return {};
  const bool is_start = fn::impl::unsafeGetFunctionalWrapper(base)->view_metas().empty();
  if (!is_start || fake->dtype() != base_fake->dtype() || !base_fake->is_contiguous()) return {};
  c10::DimVector sizes(fake->sizes().begin(), fake->sizes().end());
  const c10::DimVector strides(fake->strides().begin(), fake->strides().end());
  for (size_t i = 0; once && i < sizes.size(); ++i) {
    if (strides[i] == 0) sizes[i] = 1;
  }
  const int64_t offset = fake->storage_offset() - base_fake->storage_offset();
  if (offset == 0) return base.as_strided(sizes, strides);
  // An offset counts from where a storage begins, and only of the graph's own is that known.
  const Node* producer = graph_.producer(base_fake->value);
  if (producer == nullptr || has_tag(producer->op, Tag::kView)) replace_base(base);
  return base.as_strided(sizes, strides, offset);
}

// From now on the storage of `base` holds a copy of what it held.
void Recorder::replace_base(const at::Tensor& base) {
  auto* storage = static_cast<fn::FunctionalStorageImpl*>(base.storage().unsafeGetStorageImpl());
  fn::impl::unsafeGetFunctionalWrapper(base)->apply_updates();
  at::Tensor copy;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::AutoDispatchSkipFunctionalize below_functionalization;
    copy = at::clone(storage->base());
  }
  storage->add_update(copy, {});
  fn::impl::sync(base);
}

bool Recorder::write_by_strides(const c10::OperatorHandle& op, const OperatorPlan& plan, torch::jit::Stack* stack) {
  if (phase_ != Phase::kForward || writes_by_strides_) return false;
  const std::vector<Given> given = tensors_among(plan, *stack);
  check_operands(op, plan, *stack, given);
  TensorList written;
  for (const Given& tensor : given) {
    if (tensor.is_written) written.push_back(tensor.tensor);
  }
  if (std::any_of(written.begin(), written.end(), lies_in_one_place)) ask_kernel(op, plan, *stack);
  // The forward of a fill is right, and the backward of it in eager is an error: it writes to the view's gradient.
  const auto has_no_backward = [](const at::Tensor& tensor) {
    return c10::GradMode::is_enabled() && tensor.requires_grad() && lies_in_one_place(tensor);
  };
  if (std::any_of(written.begin(), written.end(), has_no_backward)) refuse_write(op);
  const auto is_plain = [&](const at::Tensor& tensor) {
    return can_write_back(tensor) && (plan.fills || !lies_in_one_place(tensor));
  };
  if (std::all_of(written.begin(), written.end(), is_plain)) return false;
  const size_t begin = stack->size() - plan.takes_tensor.size();
  const size_t place = std::find(plan.writes.begin(), plan.writes.end(), true) - plan.writes.begin();
  if (written.size() != 1 || !(*stack)[begin + place].isTensor()) refuse_write(op);
  const at::Tensor self = written[0];
  const FakeTensorImpl* fake = synced_fake(self);
  if (!plan.fills && has_overlap(fake->sizes(), fake->strides())) refuse_write(op);
  const struct Writing {
    explicit Writing(bool& flag) : flag_(flag) { flag_ = true; }
    ~Writing() { flag_ = false; }
    bool& flag_;
  } writing(writes_by_strides_);
  const at::Tensor elements = same_elements_of_base(self, plan.fills);
  if (!elements.defined()) refuse_write(op);
  (*stack)[begin + place] = elements;
  op.callBoxed(stack);
  for (auto result = stack->begin() + static_cast<std::ptrdiff_t>(begin); result != stack->end(); ++result) {
    if (result->isTensor() && result->toTensor().is_same(elements)) *result = self;
  }
  if (self.is_view()) recover_views_by_strides(autograd_base(self));
  return true;
}

}  // namespace diptych::detail
