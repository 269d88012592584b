// From one node to the values of a kernel: what the rules of rows see.
#pragma once
#include <functional>
#include <vector>

#include "diptych/native/lower/group_space.h"
#include "diptych/native/lower/node_arguments.h"
#include "diptych/native/lower/size_table.h"
#include "diptych/native/lower/term.h"

namespace diptych::detail {

/// Where, along one dim of a tensor that is read at other places, the element of the current point is.
struct ReadPlace {
  SizeExpr offset = 0;
  int64_t step = 0;  ///< per position along the result's dim
  size_t dim = 0;    ///< of the result
};

/// One node of a group while it is lowered.
class NodeLowering : public NodeArguments {
 public:
  /// `load` loads a value that the group reads, whose dims run along these atoms of the kernel, or with this map.
  struct Sources {
    std::function<int32_t(Value)> operand;
    std::function<int32_t(Value, const IndexMap&, std::optional<LoadMask>)> load;
    std::function<bool(Value)> is_made;   ///< by the group
    std::function<DimAtoms(Value)> dims;  ///< of the node's results, by the kernel's dims
    std::function<void(int32_t)> check;   ///< see NodeLowering::check()
    std::vector<int32_t> reduced;         ///< atoms, by the kernel's dims, from the outermost to the innermost
    const Sizes* extents = nullptr;
    SizeTable* sizes = nullptr;
  };
  NodeLowering(const Graph& graph, const Node& node, KernelBuilder& builder, const Sources& sources)
      : NodeArguments(graph, node), builder_(builder), sources_(sources) {}

  KernelBuilder& builder() const { return builder_; }
  /// The dtype in which kernels compute with elements of `dtype`.
  static at::ScalarType wide(at::ScalarType dtype) { return has_dtype(kHalves, dtype) ? at::kFloat : dtype; }

  /// A tensor among the operands, which is not read at other places.
  Term own(Value value) const { return {builder_, sources_.operand(value)}; }
  bool is_made_by_group(Value value) const { return sources_.is_made(value); }
  /// A tensor operand as it is, or a number in the dtype of its kind.
  Term own(size_t index) const;
  /// A tensor operand or number, converted to `dtype` as ATen converts operands to the common dtype of an operator, and
  /// then to the dtype in which kernels compute with it.
  Term operand(size_t index, at::ScalarType dtype) const;
  Term operand(size_t index) const { return operand(index, dtype()); }
  /// The same for the operators of which ATen takes numbers and tensors without dims with the digits that a half does
  /// not have.
  Term exact_operand(size_t index) const;
  Term constant(const at::Scalar& number, at::ScalarType dtype) const {
    return {builder_, builder_.constant(number, dtype)};
  }
  /// A size as an i64.
  Term size(const SizeExpr& size) const;

  /// What a reduction takes away, as a set and by number, and how many elements that are.
  DimSet reduced() const;
  bool reduces_in_order() const;
  Term reduced_count(at::ScalarType dtype) const;
  bool reduces_one() const;  ///< whether each result is known to come from one element

  /// The position along a dim of the result, as an i64.
  Term position(size_t dim) const;
  /// The same along all that a reduction takes away.
  Term reduced_position() const;
  /// Loads an operand at other places: one place for each of its dims. Where `condition` is false it is `other`, which
  /// has the operand's dtype.
  Term load_at(Value value, const std::vector<ReadPlace>& places) const;
  Term load_at(Value value, const std::vector<ReadPlace>& places, const Term& condition, const Term& other) const;
  /// The same, at `index` further along a dim of the operand.
  Term load_at(Value value, const std::vector<ReadPlace>& places, size_t dim, const Term& index) const;

  /// Says that the kernel's results are right only where a b8 is false.
  void check(const Term& is_wrong) const { sources_.check(is_wrong.value()); }

 private:
  Term number_term(size_t index, at::ScalarType dtype) const;
  IndexMap map_at(Value value, const std::vector<ReadPlace>& places) const;

  KernelBuilder& builder_;
  const Sources& sources_;
};

/// The index of an element along dims with these strides: adds its terms to a map.
void add_dim_terms(IndexMap& map, SizeTable& sizes, const std::vector<int32_t>& atoms, const Sizes& extents,
                   SizeExpr stride);

}  // namespace diptych::detail
