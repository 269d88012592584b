// The sizes of a fused body's tensors, and of its kernel, from the tensors that the body is called with.
#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "diptych/graph/graph.h"
#include "diptych/interpreter/symbols.h"

namespace diptych::detail {

/// Finds what sizes are from those of the inputs. A body is part of a graph, so that its inputs may not tell each
/// symbol of it: of two merged dims they tell the product, which is enough for a body that needs no more. Threads: any.
class BodySizes {
 public:
  explicit BodySizes(const Graph& body);
  /// Whether any input has a dynamic size.
  bool is_dynamic() const { return binder_.has_symbols(); }
  /// Why these sizes do not follow from the inputs, or nodes of the body need one that does not; none if all is well.
  std::optional<std::string> problem(const std::vector<SizeExpr>& sizes) const;

  /// The sizes that inputs have at their dynamic dims: all others follow from these. Requires: inputs of the body's
  /// ranks.
  std::vector<int64_t> observe(const std::vector<at::Tensor>& inputs) const { return binder_.observe(inputs); }
  /// The values of sizes, without a problem(). Errors: UserError for sizes that contradict the symbols.
  std::vector<int64_t> values(const std::vector<SizeExpr>& sizes, const std::vector<int64_t>& observed) const;

 private:
  // A number times sizes of the inputs, by their place among those observed.
  struct Product {
    int64_t factor = 1;
    std::vector<size_t> places;
  };
  std::optional<Product> product_of(const SizeExpr& size) const;
  bool follows_from_symbols(const SizeExpr& size) const;

  SymbolBinder binder_;
  std::vector<SizeExpr> observed_;        // what is observed
  std::map<std::string, int64_t> known_;  // symbols that follow from it, with their hints
};

}  // namespace diptych::detail
