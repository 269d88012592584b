#include "diptych/trace/primal_table.h"

#include <torch/csrc/autograd/variable.h>

#include <unordered_set>

#include "diptych/base/check.h"
#include "diptych/trace/fake_tensor.h"
#include "diptych/trace/placeholder.h"
#include "diptych/trace/view_steps.h"

namespace diptych::detail {

namespace ag = torch::autograd;

void give_history(Primal& primal) {
  if (!primal.real.requires_grad()) return;
  primal.stand_in.set_requires_grad(true);
  // Autograd refuses in-place operators on leaves, so a tensor that is not a leaf in eager must not be one here.
  if (!primal.real.is_leaf()) primal.stand_in = make_non_leaf(primal.stand_in);
  primal.edge = ag::impl::gradient_edge(primal.stand_in);
}

Primal& PrimalTable::add(const at::Tensor& given, Primal primal) {
  const auto [known, is_new] = index_by_tensor_.try_emplace(given.unsafeGetTensorImpl(), primals_.size());
  if (is_new) {
    give_history(primal);
    if (!primal.stand_in.is_inference()) primal.version = primal.stand_in._version();
  } else {
    const Primal& first = primals_[known->second];
    primal.stand_in = first.stand_in;
    primal.version = first.version;
    primal.value = first.value;
    primal.same_as = known->second;
  }
  return primals_.emplace_back(std::move(primal));
}

std::vector<size_t> PrimalTable::unnamed() const {
  std::vector<size_t> found;
  for (size_t i = 0; i < primals_.size(); ++i) {
    const Primal& primal = primals_[i];
    const std::string_view path = primal.slot.path;
    const bool is_numbered = primal.slot.kind == SlotKind::kFreeVariable && path.starts_with("free.") &&
                             path.find_first_not_of("0123456789", 5) == path.npos;
    if (is_numbered && !primal.base_of && !is_stand_in(primal.real)) found.push_back(i);
  }
  return found;
}

bool PrimalTable::has_path(std::string_view path) const {
  return std::any_of(primals_.begin(), primals_.end(), [&](const Primal& primal) { return primal.slot.path == path; });
}

const Primal* PrimalTable::find(const at::Tensor& tensor) const {
  const auto known = index_by_tensor_.find(tensor.unsafeGetTensorImpl());
  return known == index_by_tensor_.end() ? nullptr : &primals_[known->second];
}

const Primal* PrimalTable::behind(const at::Tensor& stand_in) const {
  if (!at::functionalization::impl::isFunctionalTensor(stand_in)) return nullptr;
  const Primal* found = nullptr;
  for (const Primal& primal : primals_) {
    if (primal.stand_in.is_same(stand_in)) return &primal;
    if (!primal.stand_in.storage().is_alias_of(stand_in.storage())) continue;
    const auto& all = steps_of(stand_in);
    const auto& first = steps_of(primal.stand_in);
    const bool begins = first.size() <= all.size() && std::equal(first.begin(), first.end(), all.begin());
    if (begins && (found == nullptr || first.size() > steps_of(found->stand_in).size())) found = &primal;
  }
  return found;
}

const Primal* PrimalTable::of_value(Value value) const {
  const auto is_of_value = [&](const Primal& primal) { return primal.value == value && primal.real.defined(); };
  const auto found = std::find_if(primals_.begin(), primals_.end(), is_of_value);
  return found == primals_.end() ? nullptr : &*found;
}

bool PrimalTable::reached_from(const ag::Edge& from) const {
  if (!from.is_valid()) return false;  // a view of a tensor that requires grad, taken under no_grad
  std::unordered_set<const ag::Node*> ends, seen;
  for (const Primal& primal : primals_) {
    if (primal.edge.is_valid()) ends.insert(primal.edge.function.get());
  }
  std::vector<const ag::Node*> open{from.function.get()};
  while (!open.empty()) {
    const ag::Node* node = open.back();
    open.pop_back();
    if (ends.contains(node)) return true;
    for (const ag::Edge& edge : node->next_edges()) {
      if (edge.is_valid() && seen.insert(edge.function.get()).second) open.push_back(edge.function.get());
    }
  }
  return false;
}

// Note [Aliases that no operator made]
// w.data makes a new tensor on the memory of w each time it is read, without calling an operator. A first trace takes
// that tensor for a free variable, which would keep its value whatever the function does to w. If w is a primal too,
// the function is traced again, and a tensor on the memory of w then stands for w.detach(). If w is not a primal,
// nothing tells what the tensor is an alias of.
const at::Tensor* PrimalTable::alias_of(const at::Tensor& tensor) {
  if (!joins_aliases_) return nullptr;
  const auto known = aliases_.find(tensor.unsafeGetTensorImpl());
  if (known != aliases_.end()) return &known->second.second;
  if (is_stand_in(tensor) || !tensor.has_storage() || tensor.requires_grad()) return nullptr;
  const auto lies_alike = [&](const Primal& primal) {
    const at::Tensor& real = primal.real;
    return real.defined() && !is_stand_in(real) && real.has_storage() && real.storage().is_alias_of(tensor.storage()) &&
           real.storage_offset() == tensor.storage_offset() && real.sizes() == tensor.sizes() &&
           real.strides() == tensor.strides() && real.scalar_type() == tensor.scalar_type() &&
           real.is_conj() == tensor.is_conj() && real.is_neg() == tensor.is_neg();
  };
  const auto primal = std::find_if(primals_.begin(), primals_.end(), lies_alike);
  if (primal == primals_.end()) return nullptr;
  const at::Tensor base = primal->stand_in;
  return &aliases_.emplace(tensor.unsafeGetTensorImpl(), std::pair(tensor, base.detach())).first->second.second;
}

// The C++ code of the function reads sizes from the real tensor, whose shape does not change before the call.
void PrimalTable::check_not_captured(const at::Tensor& reshaped) const {
  for (const Primal& primal : primals_) {
    DIPTYCH_CHECK(primal.slot.kind != SlotKind::kFreeVariable || !primal.stand_in.is_same(reshaped),
                  "[capture] the function changes the shape of a captured tensor ({}) in place; pass it as an argument",
                  primal.slot.path);
  }
}

void PrimalTable::release_arguments() {
  for (Primal& primal : primals_) {
    if (primal.slot.kind != SlotKind::kArgument && !primal.base_of) continue;
    index_by_tensor_.erase(primal.outside().unsafeGetTensorImpl());
    primal.real = primal.wrapped = at::Tensor();
  }
}

}  // namespace diptych::detail
