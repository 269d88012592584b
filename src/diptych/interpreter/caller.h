// How one node is called: everything that can be decided before the first run is decided when a caller is made.
#pragma once
#include <c10/util/SmallVector.h>

#include <memory>

#include "diptych/graph/graph.h"
#include "diptych/interpreter/frame.h"
#include "diptych/interpreter/operand_table.h"

namespace diptych::detail {

/// Registers that receive a node's outputs, one per output of the node; -1 drops one.
using OutputRegisters = c10::SmallVector<int32_t, 2>;

/// Calls one operator with operands from a frame and puts its outputs into registers. Operands are left where they
/// are, or moved from at their last use; the program frees dead registers afterwards.
class Caller {
 public:
  virtual ~Caller() = default;
  /// Threads: any number at once, each with its own frame.
  virtual void call(Frame& frame) const = 0;
};

/// Makes a caller that hands C++ arguments straight to the operator's typed entry, as `at::` functions do. Returns null
/// where the operator's signature is not in the table, or an operand has no direct form. Operators of other libraries
/// are never called this way: the schema does not show what C++ types their kernels were registered with.
std::unique_ptr<Caller> make_typed_caller(const c10::OperatorHandle& handle, OperandTable& table,
                                          c10::ArrayRef<Operand> operands, OutputRegisters outputs);

/// Whether a node's operator refuses an operand that is lazily conjugated; a boxed caller resolves it.
bool reads_resolved(const Node& node);

/// Makes a caller that goes through the operator's boxed entry; it takes any operator. `dying` holds the registers
/// whose values are used for the last time; they are moved onto the stack.
std::unique_ptr<Caller> make_boxed_caller(const Node& node, OperandTable& table, OutputRegisters outputs,
                                          c10::ArrayRef<int32_t> dying);

/// Whether a node writes into a part of a complex tensor, for which autograd has no formula.
bool writes_part_of_complex(const Graph& graph, const Node& node);

/// Makes a caller of such a node, which writes the real and the imaginary parts where gradients are recorded.
std::unique_ptr<Caller> make_complex_part_caller(const Node& node, OperandTable& table, OutputRegisters outputs,
                                                 c10::ArrayRef<int32_t> dying);

}  // namespace diptych::detail
