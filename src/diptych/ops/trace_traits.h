// What a trace must know of single operators besides their tags: calls that it can't record as they are, and how
// functionalization writes through a view.
#pragma once
#include <cstdint>
#include <optional>

#include "diptych/graph/op.h"

namespace diptych::detail {

/// Why a trace treats a call of an operator in a way of its own. An operator has at most one such trait.
enum class TraceTrait : uint8_t {
  kNone,
  kCopiesInto,         ///< copies its second operand into the first; the functional form has no formula in autograd
  kCasts,              ///< converts its first operand to the dtype in the second, and checks nothing
  kDrawsByIndex,       ///< draws in the order of indices, where its in-place form draws in the order of memory
  kDrawsInBlocks,      ///< on a CPU draws blocks of numbers for contiguous tensors, and single ones for all others
  kReadsResolved,      ///< refuses an operand with a pending conjugation, which a stand-in does not have
  kResolvesConjugate,  ///< copies a tensor that is lazily conjugated, as no stand-in says it is
  kResolvesNegative,   ///< copies a tensor that is lazily negated
  kLiftsLiteral,       ///< makes a tensor that a language made of a literal one that the program computes with
  kCountsInStorage,    ///< takes an offset from the start of its operand's storage
  kMixesUpBatches,     ///< a solver that takes another batch's factors where they are broadcast: LibTorch 2.13 is wrong
  kLeavesGaps,         ///< makes a tensor by strides, which may leave gaps or let elements overlap
  kFunctionalForm,     ///< is taken apart by autograd, but called below it for its in-place form, which is not
  kHasNoMemory,  ///< makes zeros without memory, which no kernel may write to; aten.zeros takes the same arguments
};

/// Returns the trait of `op`, overload included. Threads: any; callers that see an operator often keep the answer.
TraceTrait trace_trait(const Op& op);

/// How functionalization writes the new elements of a view back into the tensor that the view was taken of.
enum class WriteBack : uint8_t {
  kByElement,    ///< each element to its place: right for every view
  kBySum,        ///< adds up windows that overlap: wrong for every view
  kInStorage,    ///< by strides that count in the storage: right where this is the first view, and elements lie apart
  kByDifference  ///< subtracts what was there, which rounds: Diptych has a way of its own, right where elements lie
                 ///< apart
};

/// Returns how views by `op` are written back. Threads: any; callers that see an operator often keep the answer.
WriteBack write_back(const Op& op);

/// A mutation that an operator's schema does not declare: it happens if the argument `mutated_argument` is defined and
/// `condition_argument` is true.
struct HiddenMutation {
  Op declared;  ///< does the same with the same arguments, and declares it
  int mutated_argument;
  int condition_argument;
};

/// Returns the undeclared mutation of `op`, if it has one. Threads: any.
std::optional<HiddenMutation> hidden_mutation(const Op& op);

}  // namespace diptych::detail
