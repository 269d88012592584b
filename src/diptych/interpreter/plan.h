// What a Program is compiled to, and the compilation.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "diptych/interpreter/caller.h"
#include "diptych/interpreter/lifetimes.h"
#include "diptych/interpreter/operand_table.h"
#include "diptych/interpreter/program.h"
#include "diptych/interpreter/reuse.h"
#include "diptych/interpreter/symbols.h"

namespace diptych::detail {

/// One node, ready to be called.
struct Step {
  std::unique_ptr<Caller> caller;
  std::unique_ptr<Reuse> reuse;           ///< null where the node can't run in place
  uint32_t dead_begin = 0, dead_end = 0;  ///< registers freed afterwards, in Compiled::dead
  bool no_grad = false;
  bool is_direct = true;
  OutputRegisters outputs;                ///< for profiles
  c10::SmallVector<int32_t, 4> operands;  ///< references in for_each_operand_value's order, for error messages
};

/// Where one graph output comes from.
struct OutputSource {
  int32_t reference = -1;
  bool is_last = false;  ///< no later output is the same value, so it is moved
};

/// Everything but run-time state.
struct Compiled {
  std::vector<Step> steps;
  std::vector<int32_t> dead;
  std::vector<int32_t> unused_inputs;
  std::vector<bool> required_inputs;  ///< by input: whether a node takes it where an undefined tensor is refused
  std::vector<OutputSource> outputs;
  std::vector<at::Tensor> constants;
  std::vector<SizeExpr> scalars;
  std::vector<Sizes> lists;
  std::vector<DynamicNumber> numbers;
  size_t num_registers = 0;
};

/// Compiles a graph. Its inputs are in registers 0, 1, ... in order.
Compiled compile(const Graph& graph, const ProgramOptions& options);

/// Computes a graph's sizes for the inputs of a run, and remembers the last ones. Threads: any.
class SizeResolver {
 public:
  /// Resolves the sizes that `compiled` holds.
  SizeResolver(const Graph& graph, const Compiled& compiled);
  /// Returns the sizes for these inputs; null if the graph has no dynamic size.
  std::shared_ptr<const DynamicSizes> resolve(const std::vector<at::Tensor>& inputs) const;

 private:
  SymbolBinder binder_;
  std::vector<SizeExpr> scalars_;
  std::vector<Sizes> lists_;
  std::vector<DynamicNumber> numbers_;
  mutable std::mutex mutex_;
  mutable std::vector<int64_t> last_observed_;
  mutable std::shared_ptr<const DynamicSizes> last_;
};

/// Called inside a catch block: throws the current exception again with what is known of the node that failed.
[[noreturn]] void rethrow_in_node(const Graph& graph, size_t node_index, const std::vector<std::string>& operands);

}  // namespace diptych::detail
