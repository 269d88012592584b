// A sample as what every judge compares with: the graph of one node, and what eager made of it, once.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "diptych/graph/graph.h"
#include "samples/sample.h"
#include "testing/tensors.h"

namespace diptych::test {

/// What random operators draw with, whoever runs them.
constexpr uint64_t kDrawSeed = 7;

/// A call that eager has made.
class SampledCall {
 public:
  /// `number` counts the samples of the operator in its family. Errors: eager's.
  SampledCall(OpSample sample, const std::string& family, int number);

  const OpSample& sample() const { return sample_; }
  /// Which sample of which operands, and the command that repeats it, for messages.
  std::string where() const;

  /// The tensors among the arguments, each once. Numbers that stand for tensors are none of them.
  const Tensors& inputs() const { return inputs_; }
  /// Copies of them in their own layouts, since some kernels write to their arguments; where elements overlap or have
  /// gaps the tensors themselves.
  Tensors fresh_inputs() const;
  /// What eager made: lists flattened, undefined where it made nothing.
  const Tensors& results() const { return results_; }
  /// The same call with other tensors.
  std::shared_ptr<const SampledCall> with_inputs(Tensors inputs) const;
  /// What eager makes of others.
  Tensors results_of(const Tensors& inputs) const;

  /// Whether eager writes all of a result.
  bool is_whole(size_t index) const;

  bool is_random() const { return is_random_; }
  /// Whether it is a node that a graph would hold: it has results, and writes to none of its arguments, as far as the
  /// schema tells.
  bool is_functional() const;

  /// Adds a node of these operands, which stand for the inputs, and returns its outputs, one per result.
  std::vector<Value> write_into(Graph& graph, const std::vector<Value>& inputs) const;

 private:
  std::string name_;
  std::string family_;
  OpSample sample_;
  Op op_;
  std::vector<Operand> operands_;  ///< values are numbered as the inputs are
  Tensors inputs_, results_;
  bool is_random_ = false;
};

using SharedCall = std::shared_ptr<const SampledCall>;

/// dtype, sizes and strides of each.
std::string described(const Tensors& tensors);

/// Several calls as one graph, whose inputs are theirs, each tensor once.
struct CallGraph {
  Graph graph{"samples"};
  Tensors inputs;
  std::vector<std::vector<Value>> outputs;  ///< of each call

  /// Requires: is_functional().
  explicit CallGraph(const std::vector<SharedCall>& calls);
  /// Copies results with gaps, or where elements overlap, as another output in their place: not all write such.
  void copy_sparse_results(const std::vector<SharedCall>& calls);
  /// Makes the defined outputs those of the graph.
  void finish();
};

}  // namespace diptych::test
