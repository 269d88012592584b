// The interpreter: runs a graph node by node on ATen. A Program is a graph with everything decided that can be decided
// before the first run, so that a node costs about what a direct `at::` call does.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "diptych/graph/graph.h"
#include "diptych/interpreter/profile.h"

namespace diptych {

struct ProgramOptions {
  /// Write a pointwise result over an operand that dies there, where nobody else holds its memory. Results are
  /// bit-identical either way.
  bool reuse_buffers = true;
  /// Whether a checked run (DIPTYCH_CHECK_CALLS) compares its tensors with the graph: not where they may have other
  /// sizes, as in a question that asks for these.
  bool is_checked = true;
};

struct RunOptions {
  /// Run with autograd on and record gradients, as the caller's grad mode says; nodes recorded under no_grad run under
  /// no_grad, and nothing runs in place. Otherwise the run is below autograd.
  bool differentiable = false;
  /// Where to add the time and bytes of each node; null for none.
  Profile* profile = nullptr;
  /// In a differentiable run, called before each node; null for none.
  const std::function<void(const Node&)>* before = nullptr;
};

/// A graph made ready to run. Threads: run() may be called from any number at once, and from within itself.
class Program {
 public:
  /// Errors: UserError names an operator that can't be run, with its node.
  explicit Program(const Graph& graph, const ProgramOptions& options = {});
  ~Program();
  Program(Program&&) noexcept;
  Program& operator=(Program&&) noexcept;

  /// Runs the graph. `inputs` has one tensor per graph input, undefined where none is given (a tangent), and is
  /// consumed: each is freed at its last use, as is each intermediate value. Returns one tensor per graph output.
  /// Errors: UserError for a wrong number of inputs, an input that is undefined and needed, sizes that contradict the
  /// graph's symbols, and for whatever a kernel throws: the text names the node, its scope and its operands, and the
  /// kernel's own exception is nested in it (std::rethrow_if_nested).
  std::vector<at::Tensor> run(std::vector<at::Tensor>&& inputs, const RunOptions& options = {}) const;

  const Graph& graph() const;
  /// How many tensors are held at once at most, graph inputs included.
  size_t num_registers() const;
  /// How the nodes are called: straight to the operator's C++ entry, or boxed (higher-order nodes count as boxed), and
  /// how many may run in place.
  struct CallCounts {
    size_t direct = 0, boxed = 0, reusing = 0;
  };
  CallCounts call_counts() const;

 private:
  struct Plan;
  std::unique_ptr<const Plan> plan_;
};

}  // namespace diptych
