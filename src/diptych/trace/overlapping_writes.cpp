#include "diptych/trace/overlapping_writes.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "diptych/base/error.h"
#include "diptych/ops/tags.h"
#include "diptych/trace/autograd_facts.h"
#include "diptych/trace/eager_layout.h"
#include "diptych/trace/exchange_tensors.h"
#include "diptych/trace/location.h"
#include "diptych/trace/memory_overlap.h"
#include "diptych/trace/place_in_storage.h"
#include "diptych/trace/stack_tensors.h"
#include "diptych/trace/trace_guard.h"

namespace diptych::detail {
namespace {

namespace fn = at::functionalization;

using TensorList = std::vector<at::Tensor>;

// The fake tensor behind a stand-in, with pending writes applied; null for a tensor that is not a stand-in.
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

// ATen compares storages to find out whether two tensors may overlap, and misses memory that was lent to several.
bool have_one_storage(const at::Tensor& a, const at::Tensor& b) {
  const Primal* left = Recorder::current()->primal_table().behind(a);
  const Primal* right = Recorder::current()->primal_table().behind(b);
  if (left == nullptr || right == nullptr || left == right) return true;
  return !left->real.defined() || !right->real.defined() || left->real.storage().is_alias_of(right->real.storage());
}

// Whether two tensors are the same elements in the same order; strides of dimensions of size 1 do not matter.
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

// Whether an operator may write an element before it has read it for another one.
bool mixes_elements(const Op& op) { return has_tag(op, Tag::kMixesElements) || has_tag(op, Tag::kComputeHeavy); }

bool lies_in_one_place(const at::Tensor& tensor) {
  const FakeTensorImpl* fake = synced_fake(tensor);
  return fake != nullptr && at::has_internal_overlap(const_cast<FakeTensorImpl*>(fake)) == at::MemOverlap::Yes;
}

/// Real tensors of zeros that lie in memory as the stand-ins lie; those of one storage share one.
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
      fmt::format("[trace] {} changes a view whose elements overlap, as expand, unfold and as_strided make them; "
                  "change its base, or a clone of it",
                  with_place(op.operator_name())));
}

[[noreturn]] void refuse_operands(const c10::OperatorHandle& op) {
  throw_user_error(
      fmt::format("[trace] {} changes memory that overlaps another operand, so its result depends on the order in "
                  "which its kernel writes; pass it a clone of that operand",
                  with_place(op.operator_name())));
}

// Calls the operator on an example and throws its error if it is about overlap; another error would only tell that the
// operator takes no zeros. A library's kernel checks nothing, and is not to run twice.
void ask_kernel(const c10::OperatorHandle& op, const OperatorPlan& plan, const torch::jit::Stack& stack) {
  if (!plan.is_native) return;
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

// The graph reads all operands before it writes. This computes what eager computes where an operand shares no memory
// with a written tensor, or where each of its elements is read only for the element that is written in its place.
void check_operands(const c10::OperatorHandle& op, const OperatorPlan& plan, const torch::jit::Stack& stack,
                    const std::vector<Given>& given) {
  for (const Given& written : given) {
    for (const Given& read : given) {
      const bool is_itself = read.argument == written.argument && read.element == written.element;
      if (!written.is_written || is_itself || !are_views_of_one(written.tensor, read.tensor)) continue;
      const StoragePlace to = place_in_storage(written.tensor), from = place_in_storage(read.tensor);
      if (to.is_lazy() || from.is_lazy() || !share_places(to.meta, from.meta)) continue;
      const bool is_own = read.element == written.element && lie_alike(to.meta, from.meta) && !mixes_elements(Op(op));
      if (is_own && has_tag(Op(op), Tag::kPointwise) && to.meta.strides() == from.meta.strides()) continue;
      if (have_one_storage(written.tensor, read.tensor)) ask_kernel(op, plan, stack);
      if (!is_own && !plan.fills) refuse_operands(op);
    }
  }
}

// Takes the elements of `view` from its base by strides; undefined where strides can't express them, because the base
// is not a plain tensor or has another dtype. `once`: of elements that lie in one place along a dimension, only the
// first.
at::Tensor same_elements_of_base(const Graph& graph, const at::Tensor& view, bool once) {
  at::Tensor base = autograd_base(view);
  const FakeTensorImpl* fake = synced_fake(view);
  const FakeTensorImpl* base_fake = synced_fake(base);
  if (!fn::impl::isFunctionalTensor(base) || !base.storage().is_alias_of(view.storage())) return {};
  const bool is_start = steps_of(base).empty();
  if (!is_start || fake->dtype() != base_fake->dtype() || !base_fake->is_contiguous()) return {};
  c10::DimVector sizes(fake->sizes().begin(), fake->sizes().end());
  const c10::DimVector strides(fake->strides().begin(), fake->strides().end());
  for (size_t i = 0; once && i < sizes.size(); ++i) {
    if (strides[i] == 0) sizes[i] = 1;
  }
  const int64_t offset = fake->storage_offset() - base_fake->storage_offset();
  if (offset == 0) return base.as_strided(sizes, strides);
  // An offset counts from the beginning of a storage, which is only known for storages of the graph's own.
  const Node* producer = graph.producer(base_fake->value);
  if (producer == nullptr || has_tag(producer->op, Tag::kView)) replace_base(base);
  return base.as_strided(sizes, strides, offset);
}

// Refuses writes that eager refuses, and those of which eager can't compute a gradient.
void check_written(const c10::OperatorHandle& op, const OperatorPlan& plan, const torch::jit::Stack& stack,
                   const TensorList& written) {
  if (std::any_of(written.begin(), written.end(), lies_in_one_place)) ask_kernel(op, plan, stack);
  // The forward of a fill is right. In eager its backward is an error, since it writes to the view's gradient.
  const auto has_no_backward = [](const at::Tensor& tensor) {
    return c10::GradMode::is_enabled() && tensor.requires_grad() && lies_in_one_place(tensor);
  };
  if (std::any_of(written.begin(), written.end(), has_no_backward)) refuse_write(op);
}

}  // namespace

bool write_by_strides(Recorder& recorder, const c10::OperatorHandle& op, const OperatorPlan& plan,
                      torch::jit::Stack* stack) {
  if (recorder.phase() != Phase::kForward || recorder.views().writes_by_strides()) return false;
  const std::vector<Given> given = tensors_among(plan, *stack);
  check_operands(op, plan, *stack, given);
  TensorList written;
  for (const Given& tensor : given) {
    if (tensor.is_written) written.push_back(tensor.tensor);
  }
  check_written(op, plan, *stack, written);
  const auto is_plain = [&](const at::Tensor& tensor) {
    return recorder.views().can_write_back(tensor) && (plan.fills || !lies_in_one_place(tensor));
  };
  if (std::all_of(written.begin(), written.end(), is_plain)) return false;
  const size_t begin = stack->size() - plan.takes_tensor.size();
  const size_t place = std::find(plan.writes.begin(), plan.writes.end(), true) - plan.writes.begin();
  if (written.size() != 1 || !(*stack)[begin + place].isTensor()) refuse_write(op);
  const at::Tensor self = written[0];
  const FakeTensorImpl* fake = synced_fake(self);
  if (!plan.fills && has_overlap(fake->sizes(), fake->strides())) refuse_write(op);
  const ViewLedger::StridedWrite writing(recorder.views());
  const at::Tensor elements = same_elements_of_base(recorder.graph(), self, plan.fills);
  if (!elements.defined()) refuse_write(op);
  (*stack)[begin + place] = elements;
  op.callBoxed(stack);
  for (auto result = stack->begin() + static_cast<std::ptrdiff_t>(begin); result != stack->end(); ++result) {
    if (result->isTensor() && result->toTensor().is_same(elements)) *result = self;
  }
  if (self.is_view()) recorder.views().recover_views_by_strides(autograd_base(self));
  return true;
}

}  // namespace diptych::detail
