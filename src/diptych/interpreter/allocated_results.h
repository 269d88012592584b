// Results of matrix products in memory that whoever runs a graph provides.
#pragma once
#include <c10/core/Allocator.h>

#include <memory>

#include "diptych/graph/graph.h"
#include "diptych/interpreter/caller.h"

namespace diptych::detail {

/// While one lives, Programs that run on this thread, those of bodies included, have the results of matrix products
/// allocated by `allocator`, which has to outlive them. They are otherwise what they are without, to the bit.
class ResultAllocatorScope {
 public:
  explicit ResultAllocatorScope(c10::Allocator& allocator);
  ~ResultAllocatorScope();
  ResultAllocatorScope(const ResultAllocatorScope&) = delete;
  ResultAllocatorScope& operator=(const ResultAllocatorScope&) = delete;

 private:
  c10::Allocator* before_;
};

/// Whether the result of `node` is allocated by a scope's allocator: a product that LibTorch computes by one code into
/// new memory and into memory that it is given.
bool has_allocated_result(const Node& node);

/// Returns a caller of a node that does so where a scope is open, and else what `plain` does; `plain` itself where the
/// node can't be called that way. Requires: has_allocated_result(node); `output`, a register that no operand is in.
std::unique_ptr<Caller> with_allocated_result(std::unique_ptr<Caller> plain, const Node& node, OperandTable& table,
                                              int32_t output);

}  // namespace diptych::detail
