// Complex numbers: their parts, and tensors that are conjugated or negated when they are read.
#include <numbers>

#include "diptych/native/lower/row_shapes.h"

namespace diptych::detail {
namespace {

// What a kernel holds are the elements themselves: nothing is left to be conjugated when they are read.
Terms conjugate(NodeLowering& node) { return {conj(node.own(0))}; }
Terms negative(NodeLowering& node) { return {-node.own(0)}; }
Terms as_it_is(NodeLowering& node) { return {node.own(0)}; }
// Kernels do not compute with halves.
bool is_negated(const NodeArguments& node) { return has_dtype(kFloats | kComplexes, node.dtype()); }

Terms real_part(NodeLowering& node) {
  const Term x = node.own(0);
  return {x.is_complex() ? x.apply("real") : x};
}
Terms imaginary_part(NodeLowering& node) { return {node.own(0).apply("imag")}; }
bool is_of_complex(const NodeArguments& node) { return has_dtype(kComplexes, node.operand_dtype(0)); }

Terms angle(NodeLowering& node) {
  if (is_of_complex(node)) return {node.own(0).apply("imag").apply("atan2", node.own(0).apply("real"))};
  const Term x = node.operand(0);
  return {x.apply("is_nan").choose(x, (x < 0.0).choose(std::numbers::pi, x.like(0)))};
}

Terms complex_of_parts(NodeLowering& node) { return {node.own(0).apply("complex", node.own(1))}; }
Terms complex_of_polar(NodeLowering& node) {
  const Term size = node.own(0), way = node.own(1);
  return {(size * way.apply("cos")).apply("complex", size * way.apply("sin"))};
}

constexpr KernelRow kComplexRows[] = {
    also_complex({"aten._conj", place_pointwise, conjugate}),
    also_complex({"aten._conj_physical", place_pointwise, conjugate}),
    also_complex({"aten.conj_physical", place_pointwise, conjugate}),
    also_complex({"aten.resolve_conj", place_pointwise, as_it_is}),
    also_complex({"aten._neg_view", place_pointwise, negative, is_negated}),
    also_complex({"aten.resolve_neg", place_pointwise, as_it_is}),
    also_complex({"aten.real", place_pointwise, real_part}),
    also_complex({"aten.imag", place_pointwise, imaginary_part, is_of_complex}),
    also_complex({"aten.angle", place_pointwise, angle, has_float_result}),
    also_complex({"aten.complex", place_pointwise, complex_of_parts}),
    also_complex({"aten.polar", place_pointwise, complex_of_polar}),
};

}  // namespace

std::span<const KernelRow> complex_rows() { return kComplexRows; }

}  // namespace diptych::detail
