// Primals that share memory, one of them mutated: as views of one base, so that each sees what happens to the others.
#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/as_strided_scatter.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/variable.h>

#include "diptych/base/error.h"
#include "diptych/trace/placeholder.h"
#include "diptych/trace/recorder.h"
#include "diptych/trace/strided_view.h"

namespace diptych::detail {

namespace ag = torch::autograd;

namespace {

at::Tensor place_of(const Recorder::Primal& primal, const at::Tensor& storage) {
  return at::as_strided(storage, primal.real.sizes(), primal.real.strides(), primal.offset());
}

// Makes `part` what autograd would make of a view of `head` that was taken by its strides, as `real` was taken of its
// base. (Functionalization knows no strided view of a view, so autograd and it must not share one.)
void relate(const at::Tensor& part, const at::Tensor& head, const Recorder::Primal& primal) {
  const at::Tensor& real = primal.real;
  at::Tensor place = meta_like(real);
  place.unsafeGetTensorImpl()->set_storage_offset(primal.offset());
  auto meta = strided_view_meta(part, head, std::move(place), ag::CreationMeta::DEFAULT);
  auto* related = meta.get();
  part.unsafeGetTensorImpl()->set_autograd_meta(std::move(meta));
  const auto* original = ag::impl::get_view_autograd_meta(real);
  // Where autograd did not record the taking of the view, it has no gradient function.
  if (head.requires_grad() && original->grad_fn_ != nullptr) {
    related->set_attr_version(related->get_attr_version() - 1);  // stale, so that it is made when asked for
    part.grad_fn();
  }
  related->set_creation_meta(original->get_creation_meta());
}

// What is merged is seen without the bits by which a tensor reads its memory as something else.
void check_bits(const Recorder::Primal& one, const Recorder::Primal& other) {
  DIPTYCH_CHECK(one.real.is_conj() == other.real.is_conj() && one.real.is_neg() == other.real.is_neg(),
                "[capture] '{}' and '{}' share memory, which one of them reads as conjugates or negated and the other "
                "as it is, and one of them is changed in place; pass one of them as a copy",
                one.slot.path, other.slot.path);
}

}  // namespace

const at::Tensor& autograd_base(const at::Tensor& tensor) {
  return tensor.is_view() ? ag::impl::get_view_autograd_meta(tensor)->get_backward_view().base_ : tensor;
}

void Recorder::give_history(Primal& primal) {
  if (!primal.real.requires_grad()) return;
  primal.stand_in.set_requires_grad(true);
  // What is no leaf in eager must be none here, or in-place operators on it would be refused.
  if (!primal.real.is_leaf()) primal.stand_in = make_non_leaf(primal.stand_in);
  primal.edge = ag::impl::gradient_edge(primal.stand_in);
}

// Note [Merged primals]
// A family are the members that autograd sees as views of one tensor, its head, or that are the head. Values come from
// a storage of the graph's own, into which the heads are written; that much lies below autograd. To autograd, heads are
// primals of their own and the others are views of their heads, as in eager: a member's gradient arrives at its head.
void Recorder::merge(const std::vector<size_t>& members, bool with_families) {
  check_mergeable(members, with_families);
  std::vector<std::pair<size_t, std::vector<size_t>>> families;
  for (const size_t member : members) {
    const at::Tensor& base = with_families ? autograd_base(primals_[member].real) : primals_[member].real;
    const auto known = std::find_if(families.begin(), families.end(), [&](const auto& family) {
      return with_families && autograd_base(primals_[family.first].real).is_same(base);
    });
    if (known == families.end()) {
      families.push_back({member, {member}});
    } else {
      known->second.push_back(member);
    }
  }
  MergedBase merged{{}, members};
  std::vector<size_t> heads;
  for (auto& [head, parts] : families) {
    if (parts.size() > 1) head = find_head(parts);
    heads.push_back(head);
    if (std::find(members.begin(), members.end(), head) == members.end()) merged.members.push_back(head);
  }
  merged.base = put_on_one_storage(heads, merged.members);
  for (const auto& [head, parts] : families) {
    for (const size_t part : parts) {
      if (part != head) make_part(part, head, merged.base);
    }
  }
  for (Primal& primal : primals_) {
    if (!primal.same_as) continue;
    primal.stand_in = primals_[*primal.same_as].stand_in;
    primal.value = primals_[*primal.same_as].value;
  }
  merged_bases_.push_back(std::move(merged));
}

void Recorder::check_mergeable(const std::vector<size_t>& members, bool with_families) const {
  const Primal& first = primals_.at(members.at(0));
  for (const size_t member : members) {
    const Primal& primal = primals_[member];
    DIPTYCH_CHECK(primal.real.scalar_type() == first.real.scalar_type(),
                  "[capture] '{}' and '{}' share memory under two dtypes and one of them is changed in place; "
                  "pass one of them as a copy",
                  first.slot.path, primal.slot.path);
    check_bits(first, primal);
    DIPTYCH_CHECK(with_families || members.size() == 1 || !primal.real.requires_grad(),
                  "[capture] '{}' requires grad and shares memory with '{}', and one of them is changed in place; "
                  "pass the tensor that both are views of, and take the views inside the function",
                  primal.slot.path, primals_[members[member == members[0] ? 1 : 0]].slot.path);
  }
}

// The member that the others are views of, or else a primal that is added for it.
size_t Recorder::find_head(const std::vector<size_t>& family) {
  const at::Tensor base = autograd_base(primals_[family[0]].real);
  for (const size_t member : family) {
    if (primals_[member].real.is_same(base)) return member;
  }
  add_primal(base, {SlotKind::kFreeVariable, "base of " + primals_[family[0]].slot.path});
  primals_.back().base_of = family[0];
  return primals_.size() - 1;
}

// Note [Aliases that no operator made]
// w.data makes a tensor of w's memory where nobody sees it, and another one each time. In a first trace that is a free
// variable, which would stay what it is whatever becomes of w. If w is a primal too, the function is traced again, and
// what lies where w lies is then w.detach(); if w is not, nobody knows of what it is an alias.
const at::Tensor* Recorder::alias_of_primal(const at::Tensor& tensor) {
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

const Recorder::Primal* Recorder::primal_behind(const at::Tensor& stand_in) const {
  const auto steps_of = [](const at::Tensor& tensor) -> const std::vector<ViewStep>& {
    return at::functionalization::impl::unsafeGetFunctionalWrapper(tensor)->view_metas();
  };
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

// By addresses, since memory that was lent is known under several storages. What has none is a stand-in of its own.
void Recorder::find_places(const std::vector<size_t>& members) {
  const auto address = [&](size_t member) {
    return reinterpret_cast<uintptr_t>(primals_[member].real.storage().unsafeGetStorageImpl()->data());
  };
  uintptr_t first = address(members[0]);
  for (const size_t member : members) first = std::min(first, address(member));
  for (const size_t member : members) {
    Primal& primal = primals_[member];
    const uintptr_t distance = address(member) - first;
    DIPTYCH_CHECK(
        distance % primal.real.itemsize() == 0,
        "[capture] '{}' and '{}' share memory, {} bytes apart, so that an element of one lies across two of the "
        "other, and one of them is changed in place; pass one of them as a copy",
        primals_[members[0]].slot.path, primal.slot.path, distance);
    primal.place = static_cast<int64_t>(distance / primal.real.itemsize()) + primal.real.storage_offset();
  }
}

at::Tensor Recorder::put_on_one_storage(const std::vector<size_t>& heads, const std::vector<size_t>& members) {
  find_places(members);
  size_t extent = 0;  // in elements
  for (const size_t member : members) {
    const at::Tensor& real = primals_[member].real;
    extent = std::max(extent, at::detail::computeStorageNbytes(real.sizes(), real.strides(), /*itemsize_bytes=*/1,
                                                               primals_[member].offset()));
  }
  at::Tensor storage;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    storage = at::zeros({static_cast<int64_t>(extent)}, primals_[heads[0]].real.options());
    for (const size_t head : heads) {
      const at::Tensor& real = primals_[head].real;
      if (at::has_internal_overlap(real) == at::MemOverlap::Yes) continue;  // what it shows, others hold
      storage = at::as_strided_scatter(storage, primals_[head].stand_in, real.sizes(), real.strides(),
                                       primals_[head].offset());
    }
    for (const size_t head : heads) primals_[head].stand_in = place_of(primals_[head], storage);
  }
  for (const size_t head : heads) {
    Primal& primal = primals_[head];
    give_history(primal);
    primal.value = value_of(primal.stand_in);
    // A tensor and its detach() count versions together, so that a change of one is noticed in what the other saved.
    const at::Tensor& first = primals_[heads[0]].stand_in;
    const bool is_of_one_storage = primal.real.storage().is_alias_of(primals_[heads[0]].real.storage());
    if (is_of_one_storage && !primal.real.is_inference() &&
        primal.real._version() == primals_[heads[0]].real._version()) {
      primal.stand_in.unsafeGetTensorImpl()->set_version_counter(first.unsafeGetTensorImpl()->version_counter());
    }
  }
  // What a head shows comes by way of the storage, which autograd knows nothing of.
  blind_mutation_ = true;
  const auto requires_grad = [&](size_t member) { return primals_[member].real.requires_grad(); };
  rewrites_unseen_ |= std::any_of(members.begin(), members.end(), requires_grad);
  return storage;
}

void Recorder::make_part(size_t part, size_t head, const at::Tensor& storage) {
  Primal& primal = primals_[part];
  check_bits(primals_[head], primal);
  DIPTYCH_CHECK(primals_[head].real.is_non_overlapping_and_dense(),
                "[capture] '{}' is a view of a tensor that has gaps or overlaps, shares it with other arguments, and "
                "one of them is changed in place; pass a tensor with a storage of its own",
                primal.slot.path);
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    primal.stand_in = place_of(primal, storage);
  }
  relate(primal.stand_in, primals_[head].stand_in, primal);
  primal.value = value_of(primal.stand_in);
  primal.edge = {};
  primal.part_of = head;
  views_.emplace_back(primal.stand_in.getIntrusivePtr());
}

}  // namespace diptych::detail
