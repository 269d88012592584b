#include "diptych/ops/trace_traits.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

namespace diptych::detail {
namespace {

struct TraitRow {
  std::string_view name;  // with its overload
  TraceTrait trait;
};

constexpr TraitRow kTraitRows[] = {
    {"aten::_efficientzerotensor", TraceTrait::kHasNoMemory},
    {"aten::_to_copy", TraceTrait::kCasts},
    {"aten::as_strided", TraceTrait::kCountsInStorage},
    {"aten::as_strided_copy", TraceTrait::kCountsInStorage},
    {"aten::as_strided_scatter", TraceTrait::kCountsInStorage},
    {"aten::bernoulli.p", TraceTrait::kDrawsByIndex},
    {"aten::conj_physical", TraceTrait::kFunctionalForm},
    {"aten::copy", TraceTrait::kCopiesInto},
    {"aten::copy_", TraceTrait::kCopiesInto},
    {"aten::empty_strided", TraceTrait::kLeavesGaps},
    {"aten::lift_fresh", TraceTrait::kLiftsLiteral},
    {"aten::linalg_lu_solve", TraceTrait::kMixesUpBatches},
    {"aten::new_empty_strided", TraceTrait::kLeavesGaps},
    {"aten::normal_", TraceTrait::kDrawsInBlocks},
    {"aten::resolve_conj", TraceTrait::kResolvesConjugate},
    {"aten::resolve_neg", TraceTrait::kResolvesNegative},
    {"aten::view_as_real", TraceTrait::kReadsResolved},
};

struct WriteBackRow {
  std::string_view name;  // with its overload
  WriteBack write_back;
};

constexpr WriteBackRow kWriteBackRows[] = {
    {"aten::as_strided", WriteBack::kInStorage},
    {"aten::expand", WriteBack::kByDifference},
    {"aten::unfold", WriteBack::kBySum},
};

struct HiddenMutationRow {
  std::string_view name;  // with its overload
  std::string_view declared;
  int mutated_argument;
  int condition_argument;
};

constexpr HiddenMutationRow kHiddenMutationRows[] = {
    {"aten::native_batch_norm", "aten::_native_batch_norm_legit", /*mutated_argument=*/3, /*condition_argument=*/5},
};

// The row of `op`, or null.
template <class Row, size_t Count>
const Row* row_of(const Row (&rows)[Count], const Op& op) {
  if (op.is_hop()) return nullptr;
  const std::string name = c10::toString(op.handle().operator_name());
  const Row* const found =
      std::find_if(std::begin(rows), std::end(rows), [&](const Row& row) { return row.name == name; });
  return found == std::end(rows) ? nullptr : found;
}

}  // namespace

TraceTrait trace_trait(const Op& op) {
  const TraitRow* const row = row_of(kTraitRows, op);
  return row == nullptr ? TraceTrait::kNone : row->trait;
}

WriteBack write_back(const Op& op) {
  const WriteBackRow* const row = row_of(kWriteBackRows, op);
  return row == nullptr ? WriteBack::kByElement : row->write_back;
}

std::optional<HiddenMutation> hidden_mutation(const Op& op) {
  const HiddenMutationRow* const row = row_of(kHiddenMutationRows, op);
  if (row == nullptr) return std::nullopt;
  return HiddenMutation{Op::find(row->declared), row->mutated_argument, row->condition_argument};
}

}  // namespace diptych::detail
