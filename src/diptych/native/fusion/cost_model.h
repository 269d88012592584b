// What fusion counts: bytes moved, numbers computed again, and rows that threads can share.
//
// A kernel reads each of its inputs once and writes each of its outputs once, so nodes are worth merging if that leaves
// something out: a value that is no longer stored, or an input that both read. Against it stand what a merged kernel
// computes more than once, and work that fewer threads can share.
#pragma once
#include <cstdint>

#include "diptych/graph/graph.h"

namespace diptych::detail {

inline constexpr size_t kMostNodes = 128;    ///< of a kernel: the time of compilers grows faster than their text
inline constexpr size_t kMostBuffers = 48;   ///< inputs and outputs of a kernel, whose addresses take registers
inline constexpr size_t kMostParts = 4;      ///< of a concatenation: a kernel looks for each element into all of them
inline constexpr int64_t kFewRows = 16;      ///< rows that threads can't share evenly,
inline constexpr int64_t kLongRow = 32'768;  ///< if each of them is that long
inline constexpr int64_t kLargeResult = 1 << 20;  ///< bytes for which memory that was used before pays
inline constexpr int64_t kManyElements = 8192;    ///< of a transcendental function that pay for a call

/// The bytes of the memory that a value's elements lie in; elements that share a place count once.
int64_t bytes_moved(const TensorMeta& meta);
/// The bytes that `node` reads of an operand: of a table, no more than it takes from it; nothing where the operand's
/// sizes alone count.
int64_t bytes_read(const Graph& graph, const Node& node, Value operand);

/// Whether a value is cheap enough to be computed again wherever it is used: no more than an operation of arithmetic.
bool is_cheap_to_repeat(const Graph& graph, const Node& node);

/// Whether a kernel of this node alone beats the operator's own.
bool is_worth_a_kernel(const Graph& graph, const Node& node);

}  // namespace diptych::detail
