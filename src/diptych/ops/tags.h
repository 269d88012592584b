// Facts about one operator that hold in every graph: what kind of work it does, and what a pass may not do with it.
// They follow from the operator's schema and LibTorch's own tags where those say enough, and from a table otherwise.
#pragma once
#include <cstdint>
#include <optional>

#include "diptych/graph/graph.h"
#include "diptych/graph/op.h"

namespace diptych::detail {

/// A property of an operator; an operator may have several.
enum class Tag : uint32_t {
  kPointwise = 1U << 0,         ///< every output element depends on one element of each (broadcast) operand
  kReduction = 1U << 1,         ///< folds dimensions: sums, means, normalizations, softmax and their gradients
  kView = 1U << 2,              ///< an output shares the storage of an operand, by the schema
  kMultiOutputView = 1U << 3,   ///< a view that returns a list: split, unbind
  kIdentityView = 1U << 4,      ///< a view of exactly the same sizes and strides: alias, detach
  kRandom = 1U << 5,            ///< may draw from a generator; see draws_random() for a node
  kMutating = 1U << 6,          ///< writes to an operand
  kComputeHeavy = 1U << 7,      ///< matrix products, convolutions, attention, factorizations
  kFactory = 1U << 8,           ///< makes a tensor whose elements depend on no operand's elements
  kDataDependent = 1U << 9,     ///< a result's shape, or a number handed to C++, depends on elements
  kStrideSensitive = 1U << 10,  ///< whether a call is legal, or what it reads, depends on the operands' strides
  kCopy = 1U << 11,             ///< copies one tensor, at most to another layout or dtype: clone, _to_copy, view_copy
  kSharesStorage = 1U << 12,    ///< free to run: a view, or _unsafe_view, whose schema does not say that it is one
  kGather = 1U << 13,           ///< moves elements by index and computes nothing: index, embedding, cat, flip, tril
  kShapeView = 1U << 14,        ///< a view that changes only sizes and strides: if neither changes, it is its operand
  kStopsGradient = 1U << 15,    ///< autograd treats the result as a constant: detach
  kCollective = 1U << 16,       ///< all processes call it together, or wait for it, in one order
  kNative = 1U << 17,           ///< LibTorch's own, not a library's
  kLazyView = 1U << 18,         ///< a view that conjugates or negates its elements when they are read
  kConjugates = 1U << 19,       ///< a lazy view that conjugates
  kNegates = 1U << 20,          ///< a lazy view that negates
  kReinterprets = 1U << 21,     ///< a view that reads its memory as other elements: a lazy view, or of another dtype
  kChangesStorage = 1U << 22,   ///< replaces or resizes the storage of an operand: set_, resize_
  kFills = 1U << 23,            ///< writes one value to all elements of its first operand, and reads none of them
  kInverseView = 1U << 24,      ///< writes the new elements of a view into a copy of its base: select_scatter
  kMixesElements = 1U << 25,    ///< an element that it writes may depend on other elements of the tensor it writes to
  kAddition = 1U << 26,         ///< the first operand plus the second times the third, a number
  kMatrixProduct = 1U << 27,    ///< the product of its two operands, which are matrices
  kZeros = 1U << 28,            ///< makes a tensor of zeros
  kDrawsOnly = 1U << 29,        ///< random, and reads no elements: of its operands only sizes, strides and dtypes
};

/// Returns the tags of `op` as a bit set; a higher-order operator has none. Threads: any; a hash look-up.
uint32_t tags(const Op& op);

/// Returns whether `op` has `tag`. Threads: any.
inline bool has_tag(const Op& op, Tag tag) { return (tags(op) & static_cast<uint32_t>(tag)) != 0; }

/// Returns whether running `node` may draw random numbers: its operator is random and its operands do not rule a draw
/// out (dropout outside training, attention without dropout), or one of its subgraphs holds such a node.
bool draws_random(const Node& node);

/// Returns whether running `node` has an effect besides its outputs: it draws random numbers, writes to an operand,
/// asserts, exchanges data with other processes, or has a subgraph that does.
bool has_effect(const Node& node);

/// Returns whether `op` returns uninitialized memory, as empty_like does.
bool leaves_values_unset(const Op& op);

/// Returns the operator that writes the result of `op` into its first operand, such as aten.add_.Tensor for
/// aten.add.Tensor; nullopt where no such operator has the same arguments, or where the in-place form does something
/// else (views, resizing). It may be called where the first operand is no longer needed, has the dtype, sizes and
/// strides of the result, and shares its storage with no other operand. Threads: any.
std::optional<Op> inplace_variant(const Op& op);
/// Whether that operator, on tensors of this dtype, computes the same to the bit.
bool computes_alike_in_place(const Op& op, at::ScalarType dtype);

}  // namespace diptych::detail
