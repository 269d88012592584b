// The contract between Diptych and whatever runs its graphs. A backend is anything that turns a Graph into an
// Executable.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "diptych/graph/graph.h"
#include "diptych/passes/partition.h"

namespace diptych {

/// A graph made ready to run.
class Executable {
 public:
  virtual ~Executable() = default;
  /// Runs the graph. `inputs` holds one tensor per graph input (undefined for a tangent that is not given) and is
  /// consumed: an executable frees each input as soon as its last use has passed. Returns one tensor per graph output,
  /// undefined for none. Called below autograd and with autocast off. Threads: any number at once.
  virtual std::vector<at::Tensor> run(std::vector<at::Tensor>&& inputs) const = 0;
  /// The executables that this one hands its runs to, as far as they are made; empty for one that runs all by itself.
  /// Threads: any.
  virtual std::vector<std::shared_ptr<const Executable>> parts() const { return {}; }
};

/// Turns one graph into something that runs; any callable of this form can be a forward, backward or inference
/// compiler.
using Compiler = std::function<std::shared_ptr<const Executable>(const Graph&)>;

/// A named family of executables.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  /// What the forward saves, where the user does not say.
  virtual Partitioner partition() const { return default_partition(); }
  /// Returns a joint graph of static sizes, before it is split, in the form that the backend would rather have: with
  /// operators in parts, of which each may be saved or recomputed. Ensures: what a node becomes depends on that node
  /// alone, so that graphs with equal forward nodes keep them equal, with equal numbers.
  virtual Graph prepare_joint(const Graph& joint) const { return joint; }
  /// Returns the graph in the form that the backend would rather have, with the same slots; supports() and compile()
  /// are asked about that one.
  virtual Graph prepare(const Graph& graph) const { return graph; }
  /// Whether compile() takes the whole graph, and splits it itself once it knows more of it.
  virtual bool takes_whole(const Graph& /*graph*/) const { return false; }
  /// Whether the interpreter may run any graph in place of what compile() makes of it, at any time: it works on the
  /// same tensors, draws the same numbers, and differs by speed and rounding alone. A function's backward then can be
  /// part of a captured backward, and sizes that are met for the first time are interpreted.
  virtual bool may_be_interpreted() const { return false; }
  /// Whether this backend runs the node itself; other nodes are run by the interpreter, and reported.
  virtual bool supports(const Graph& graph, const Node& node) const = 0;
  virtual std::shared_ptr<const Executable> compile(const Graph& graph) const = 0;
};

}  // namespace diptych
