// Facts about one operator that hold in every graph: what kind of work it does and what it may not be subjected to.
// Derived from the operator's schema and LibTorch's own tags where they say enough; a table of rows for the rest.
#pragma once
#include <cstdint>
#include <optional>

#include "diptych/graph/graph.h"
#include "diptych/graph/op.h"

namespace diptych {

/// A property of an operator; an operator may have several.
enum class Tag : uint32_t {
  kPointwise = 1U << 0,         ///< every output element depends on one element of each (broadcast) operand
  kReduction = 1U << 1,         ///< folds dimensions: sums, means, normalizations, softmax and their gradients
  kView = 1U << 2,              ///< an output shares the storage of an operand, by the schema
  kMultiOutputView = 1U << 3,   ///< a view that returns a list: split, unbind
  kIdentityView = 1U << 4,      ///< a view of the very same sizes and strides: alias, detach
  kRandom = 1U << 5,            ///< may draw from a generator; see draws_random() for a node
  kMutating = 1U << 6,          ///< writes to an operand
  kComputeHeavy = 1U << 7,      ///< matrix products, convolutions, attention, factorizations
  kFactory = 1U << 8,           ///< makes a tensor whose elements depend on no operand's elements
  kDataDependent = 1U << 9,     ///< a result's shape, or a number handed to C++, depends on elements
  kStrideSensitive = 1U << 10,  ///< whether a call is legal, or what it reads, depends on the operands' strides
  kCopy = 1U << 11,           ///< a copy of one tensor, in another layout or dtype at most: clone, _to_copy, view_copy
  kSharesStorage = 1U << 12,  ///< free to run: a view, or _unsafe_view, whose schema does not say that it is one
  kGather = 1U << 13,         ///< moves elements by index and computes nothing: index, embedding, cat, flip, tril
  kShapeView = 1U << 14,  ///< a view that changes sizes and strides alone: with the same of both it is the same tensor
  kStopsGradient = 1U << 15,  ///< its result is a constant to autograd: detach
  kCollective = 1U << 16,     ///< processes take part in it together, or wait for it: each must call it, in one order
  kNative = 1U << 17,         ///< LibTorch's own, not a library's
  kLazyView = 1U << 18,       ///< a view that reads its elements as their conjugates, or negated
};

/// Returns the tags of `op` as a bit set. A higher-order operator has none of its own. Threads: any; a hash look-up.
uint32_t tags(const Op& op);

/// Returns whether `op` has `tag`. Threads: any.
inline bool has_tag(const Op& op, Tag tag) { return (tags(op) & static_cast<uint32_t>(tag)) != 0; }

/// Returns whether running `node` may draw random numbers: its operator is random and its operands do not rule a draw
/// out (dropout outside training, attention without dropout), or one of its subgraphs holds such a node.
bool draws_random(const Node& node);

/// Returns whether running `node` does anything but compute its outputs from its operands: it draws random numbers,
/// writes to an operand, asserts, exchanges data with other processes, or has a subgraph that does.
bool has_effect(const Node& node);

/// Returns whether the elements of what `op` returns are whatever stood in memory: empty_like and its kin.
bool leaves_values_unset(const Op& op);

/// Returns the operator that writes the result of `op` into its first operand, such as aten.add_.Tensor for
/// aten.add.Tensor; nothing where no such operator has the same arguments, or where in place means something else
/// (views, resizing). Calling it is right where the first operand is a dead tensor of the result's dtype, sizes and
/// strides whose storage no other operand shares. Threads: any.
std::optional<Op> inplace_variant(const Op& op);

}  // namespace diptych
