// Computing the symbols of a graph with dynamic sizes from the tensors that it is called with.
#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Finds the value of each symbol that occurs in the sizes of a graph's inputs. A size in which only one symbol has no
/// known value yet determines that symbol if it is linear in it: `s0`, `2*s0+1`, `s0*s1/2` once s0 is known.
class SymbolBinder {
 public:
  explicit SymbolBinder(const Graph& graph);
  /// Whether any input has a dynamic size.
  bool has_symbols() const { return !dimensions_.empty(); }
  /// Returns the input sizes that depend on symbols, in a fixed order; the symbols' values follow from them.
  std::vector<int64_t> observe(const std::vector<at::Tensor>& inputs) const;
  /// Returns the symbols' values. Errors: UserError names the input and dimension whose size fits no value, contradicts
  /// another input, or leaves a symbol open.
  std::map<std::string, int64_t> solve(const std::vector<int64_t>& observed) const;
  /// Returns a symbol that a node needs and solve() could not find; none if all follow from the inputs.
  std::optional<std::string> open_symbol() const;

 private:
  std::map<std::string, int64_t> deduce(const std::vector<int64_t>& observed) const;
  struct Dimension {
    size_t input;
    size_t dimension;
    SizeExpr size;
    SizeExpr scaled;  // size * scale, which has no divisor
    int64_t scale;
  };
  bool solve_one(const Dimension& dimension, int64_t observed, std::map<std::string, int64_t>& known) const;
  std::string describe(const Dimension& dimension) const;

  std::string graph_name_;
  std::vector<std::string> paths_;
  std::vector<Dimension> dimensions_;
  std::set<std::string> needed_;  ///< by operands and subgraphs of nodes
};

/// Evaluates the sizes of a tensor at the symbols' values. A size with a symbol that has no value is read from
/// `tensor`, since only the tensor's producer knew it; -1 where the tensor has no such dimension.
std::vector<int64_t> sizes_by(const Sizes& sizes, const std::map<std::string, int64_t>& symbols,
                              const at::Tensor& tensor);

}  // namespace diptych::detail
