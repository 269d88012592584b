// Softmax, log-softmax and their gradients.
#include "diptych/ops/decompositions.h"

namespace diptych::detail {
namespace {

// ATen refuses a maximum over no elements; a tensor without elements needs no shift.
Expr shifted(Expr x, int64_t dim) {
  if (x.meta().numel() == 0) return x;
  return x - x.apply("aten.amax", {c10::IValue(std::vector<int64_t>{dim}), c10::IValue(true)});
}

at::ScalarType output_dtype(const Call& call) { return call.flag(2) ? at::kFloat : call.tensor(0).meta().dtype; }

std::vector<Value> softmax(const Call& call) {
  const int64_t dim = call.integer(1);
  const Expr e = shifted(call.wide(0), dim).apply("aten.exp");
  return {(e / e.sum({dim}, /*keepdim=*/true)).to(output_dtype(call)).value};
}

std::vector<Value> log_softmax(const Call& call) {
  const int64_t dim = call.integer(1);
  const Expr x = shifted(call.wide(0), dim);
  const Expr log_sum = x.apply("aten.exp").sum({dim}, /*keepdim=*/true).apply("aten.log");
  return {(x - log_sum).to(output_dtype(call)).value};
}

at::ScalarType input_dtype(const Call& call) { return static_cast<at::ScalarType>(call.integer(3)); }

std::vector<Value> softmax_backward(const Call& call) {
  const Expr g = call.wide(0), y = call.wide(1);
  // Gradients of a row that are nearly equal cancel out: subtracted before they are multiplied, as ATen does, they do
  // so without an error of their products.
  const Expr mean = (g * y).sum({call.integer(2)}, /*keepdim=*/true);
  return {((g - mean) * y).to(input_dtype(call)).value};
}

std::vector<Value> log_softmax_backward(const Call& call) {
  const Expr g = call.wide(0);
  const Expr total = g.sum({call.integer(2)}, /*keepdim=*/true);
  return {(g - call.wide(1).apply("aten.exp") * total).to(input_dtype(call)).value};
}

}  // namespace

std::vector<Decomposition> softmax_decompositions() {
  return {
      {"aten._softmax", "softmax", softmax},
      {"aten._log_softmax", "softmax", log_softmax},
      {"aten._softmax_backward_data", "softmax", softmax_backward},
      {"aten._log_softmax_backward_data", "softmax", log_softmax_backward},
  };
}

}  // namespace diptych::detail
