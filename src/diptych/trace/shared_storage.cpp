#include "diptych/trace/shared_storage.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/as_strided_scatter.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "diptych/base/check.h"
#include "diptych/trace/autograd_facts.h"
#include "diptych/trace/strided_view.h"

namespace diptych::detail {

namespace ag = torch::autograd;

namespace {

at::Tensor place_of(const Primal& primal, const at::Tensor& storage) {
  return at::as_strided(storage, primal.real.sizes(), primal.real.strides(), primal.offset());
}

// Gives `part` the autograd metadata of a view of `head` that was taken by its strides, as the real tensor was taken of
// its base. (Functionalization knows no strided view of a view, so it and autograd must not share one.)
void relate(const at::Tensor& part, const at::Tensor& head, const Primal& primal) {
  const at::Tensor& real = primal.real;
  at::Tensor place = meta_like(real);
  place.unsafeGetTensorImpl()->set_storage_offset(primal.offset());
  auto meta = strided_view_meta(part, head, std::move(place), ag::CreationMeta::DEFAULT);
  auto* related = meta.get();
  part.unsafeGetTensorImpl()->set_autograd_meta(std::move(meta));
  const auto* original = ag::impl::get_view_autograd_meta(real);
  // A view that autograd did not record has no gradient function.
  if (head.requires_grad() && original->grad_fn_ != nullptr) {
    related->set_attr_version(related->get_attr_version() - 1);  // stale, so that grad_fn() makes it
    part.grad_fn();
  }
  related->set_creation_meta(original->get_creation_meta());
}

// The base of a merge has no conjugate or negative bit, so all members must agree in them.
void check_bits(const Primal& one, const Primal& other) {
  DIPTYCH_CHECK(one.real.is_conj() == other.real.is_conj() && one.real.is_neg() == other.real.is_neg(),
                "[capture] '{}' and '{}' share memory that only one of them reads conjugated or negated, and one of "
                "them is changed in place; pass one of them as a copy",
                one.slot.path, other.slot.path);
}

// Note [Merged primals]
// A family is the members that autograd sees as views of one tensor, its head, together with the head. The values of
// all primals come from a storage of the graph's own, into which the heads are written; this happens below autograd.
// For autograd, heads are primals of their own and the other members are views of their heads, as in eager: the
// gradient of a member arrives at its head.
class PrimalMerge {
 public:
  PrimalMerge(Recorder& recorder, const std::vector<size_t>& members, bool with_families)
      : recorder_(recorder), primals_(recorder.primal_table()), members_(members), with_families_(with_families) {}

  void run();

 private:
  struct Family {
    size_t head;
    std::vector<size_t> parts;
  };

  void check_mergeable() const;
  std::vector<Family> find_families() const;
  size_t find_head(const std::vector<size_t>& family);
  void find_places(const std::vector<size_t>& members);
  at::Tensor put_on_one_storage(const std::vector<size_t>& heads, const std::vector<size_t>& members);
  void write_heads(const std::vector<size_t>& heads, at::Tensor& storage);
  void make_head(size_t head, size_t first);
  void make_part(size_t part, size_t head, const at::Tensor& storage);

  Recorder& recorder_;
  PrimalTable& primals_;
  const std::vector<size_t>& members_;
  bool with_families_;
};

void PrimalMerge::run() {
  check_mergeable();
  std::vector<Family> families = find_families();
  MergedBase merged{{}, members_};
  std::vector<size_t> heads;
  for (auto& [head, parts] : families) {
    if (parts.size() > 1) head = find_head(parts);
    heads.push_back(head);
    if (std::find(members_.begin(), members_.end(), head) == members_.end()) merged.members.push_back(head);
  }
  merged.base = put_on_one_storage(heads, merged.members);
  for (const auto& [head, parts] : families) {
    for (const size_t part : parts) {
      if (part != head) make_part(part, head, merged.base);
    }
  }
  for (size_t i = 0; i < primals_.size(); ++i) {
    Primal& primal = primals_[i];
    if (!primal.same_as) continue;
    primal.stand_in = primals_[*primal.same_as].stand_in;
    primal.value = primals_[*primal.same_as].value;
  }
  primals_.add_merged_base(std::move(merged));
}

void PrimalMerge::check_mergeable() const {
  const Primal& first = primals_[members_.at(0)];
  for (const size_t member : members_) {
    const Primal& primal = primals_[member];
    DIPTYCH_CHECK(primal.real.scalar_type() == first.real.scalar_type(),
                  "[capture] '{}' and '{}' share memory under two dtypes and one of them is changed in place; "
                  "pass one of them as a copy",
                  first.slot.path, primal.slot.path);
    check_bits(first, primal);
    DIPTYCH_CHECK(with_families_ || members_.size() == 1 || !primal.real.requires_grad(),
                  "[capture] '{}' requires grad and shares memory with '{}', and one of them is changed in place; "
                  "pass the tensor that both are views of, and take the views inside the function",
                  primal.slot.path, primals_[members_[member == members_[0] ? 1 : 0]].slot.path);
  }
}

// Until find_head() is asked, the first member of a family is its head.
std::vector<PrimalMerge::Family> PrimalMerge::find_families() const {
  std::vector<Family> families;
  for (const size_t member : members_) {
    const at::Tensor& base = with_families_ ? autograd_base(primals_[member].real) : primals_[member].real;
    const auto known = std::find_if(families.begin(), families.end(), [&](const Family& family) {
      return with_families_ && autograd_base(primals_[family.head].real).is_same(base);
    });
    if (known == families.end()) {
      families.push_back({member, {member}});
    } else {
      known->parts.push_back(member);
    }
  }
  return families;
}

// Returns the member that the others are views of, or else a primal that is added for it.
size_t PrimalMerge::find_head(const std::vector<size_t>& family) {
  const at::Tensor base = autograd_base(primals_[family[0]].real);
  for (const size_t member : family) {
    if (primals_[member].real.is_same(base)) return member;
  }
  recorder_.add_primal(base, {SlotKind::kFreeVariable, "base of " + primals_[family[0]].slot.path});
  const size_t head = primals_.size() - 1;
  primals_[head].base_of = family[0];
  return head;
}

// Places are compared by address, since memory that was lent is known under several storages. Tensors without memory
// are specs, whose storages are not lent, and stand-ins of placeholders, which share with nothing.
void PrimalMerge::find_places(const std::vector<size_t>& members) {
  const auto address = [&](size_t member) {
    return reinterpret_cast<uintptr_t>(
        primals_[member].real.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get());
  };
  uintptr_t first = address(members[0]);
  for (const size_t member : members) first = std::min(first, address(member));
  for (const size_t member : members) {
    Primal& primal = primals_[member];
    const uintptr_t distance = address(member) - first;
    DIPTYCH_CHECK(distance % primal.real.itemsize() == 0,
                  "[capture] '{}' and '{}' share memory, {} bytes apart, so elements of one straddle elements of the "
                  "other, and one of them is changed in place; pass one of them as a copy",
                  primals_[members[0]].slot.path, primal.slot.path, distance);
    primal.place = static_cast<int64_t>(distance / primal.real.itemsize()) + primal.real.storage_offset();
  }
}

at::Tensor PrimalMerge::put_on_one_storage(const std::vector<size_t>& heads, const std::vector<size_t>& members) {
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
    write_heads(heads, storage);
  }
  for (const size_t head : heads) make_head(head, heads[0]);
  const auto requires_grad = [&](size_t member) { return primals_[member].real.requires_grad(); };
  recorder_.views().note_merged(std::any_of(members.begin(), members.end(), requires_grad));
  return storage;
}

void PrimalMerge::write_heads(const std::vector<size_t>& heads, at::Tensor& storage) {
  for (const size_t head : heads) {
    const at::Tensor& real = primals_[head].real;
    if (at::has_internal_overlap(real) == at::MemOverlap::Yes) continue;  // its elements are written by other heads
    storage =
        at::as_strided_scatter(storage, primals_[head].stand_in, real.sizes(), real.strides(), primals_[head].offset());
  }
  for (const size_t head : heads) primals_[head].stand_in = place_of(primals_[head], storage);
}

void PrimalMerge::make_head(size_t head, size_t first) {
  Primal& primal = primals_[head];
  give_history(primal);
  primal.value = recorder_.value_of(primal.stand_in);
  // A tensor and its detach() share a version counter, so that autograd notices a write to one in what the other saved.
  const at::Tensor& real = primals_[first].real;
  if (primal.real.storage().is_alias_of(real.storage()) && !primal.real.is_inference() &&
      primal.real._version() == real._version()) {
    const auto& counter = primals_[first].stand_in.unsafeGetTensorImpl()->version_counter();
    primal.stand_in.unsafeGetTensorImpl()->set_version_counter(counter);
  }
  if (!primal.stand_in.is_inference()) primal.version = primal.stand_in._version();
}

void PrimalMerge::make_part(size_t part, size_t head, const at::Tensor& storage) {
  Primal& primal = primals_[part];
  check_bits(primals_[head], primal);
  DIPTYCH_CHECK(primals_[head].real.is_non_overlapping_and_dense(),
                "[capture] '{}' shares a base that has gaps or overlaps with other arguments, and one of them is "
                "changed in place; pass a tensor with its own storage",
                primal.slot.path);
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    primal.stand_in = place_of(primal, storage);
  }
  relate(primal.stand_in, primals_[head].stand_in, primal);
  primal.value = recorder_.value_of(primal.stand_in);
  primal.edge = {};
  primal.part_of = head;
  recorder_.views().add(primal.stand_in);
}

}  // namespace

void merge_primals(Recorder& recorder, const std::vector<size_t>& members, bool with_families) {
  PrimalMerge(recorder, members, with_families).run();
}

}  // namespace diptych::detail
