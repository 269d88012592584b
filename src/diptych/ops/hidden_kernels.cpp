#include "diptych/ops/hidden_kernels.h"

namespace diptych::detail {

using Registrations = ska::flat_hash_map<c10::DispatchKey, std::list<c10::impl::AnnotatedKernel>>;

// The dispatcher keeps registrations that later ones hide, but only shows the last. C++ lets code outside a class use
// its private names in one place, the argument list of an explicit instantiation. The instantiation below hands them to
// these friends.
const c10::impl::OperatorEntry& entry_of(const c10::OperatorHandle& op);
const Registrations& registrations_of(const c10::impl::OperatorEntry& entry);

template <auto definition, auto kernels>
struct PrivateMembersOfOperators {
  friend const c10::impl::OperatorEntry& entry_of(const c10::OperatorHandle& op) { return (op.*definition)->op; }
  friend const Registrations& registrations_of(const c10::impl::OperatorEntry& entry) { return entry.*kernels; }
};
template struct PrivateMembersOfOperators<&c10::OperatorHandle::operatorDef_, &c10::impl::OperatorEntry::kernels_>;

namespace {
bool is_of_python(const c10::impl::AnnotatedKernel& kernel) { return kernel.debug.find(".py:") != std::string::npos; }
}  // namespace

// Looks through the keys in the dispatcher's order for Meta, and takes the first registration for a key.
const c10::KernelFunction* find_meta_kernel(const c10::OperatorHandle& op, bool with_composites) {
  const Registrations& registrations = registrations_of(entry_of(op));
  for (const auto key : {c10::DispatchKey::Meta, c10::DispatchKey::CompositeExplicitAutogradNonFunctional,
                         c10::DispatchKey::CompositeExplicitAutograd, c10::DispatchKey::CompositeImplicitAutograd}) {
    if (key != c10::DispatchKey::Meta && !with_composites) break;
    const auto found = registrations.find(key);
    if (found == registrations.end() || found->second.empty()) continue;
    const auto& first = found->second.back();
    if (!is_of_python(first)) return &first.kernel;
  }
  return nullptr;
}

}  // namespace diptych::detail
