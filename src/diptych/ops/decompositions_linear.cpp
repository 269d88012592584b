// Matrix products with an addend, as a plain product and pointwise operators.
#include "diptych/ops/decompositions.h"

namespace diptych::detail {
namespace {

// beta * bias + alpha * product. With a beta of 0 the bias is not read, and integers stay integers.
std::vector<Value> combine(const Call& call, Expr product, size_t beta, size_t alpha) {
  const auto scaled = [&](Expr tensor, size_t i) {
    const auto& factor = call.constant(i);
    return factor.toScalar().equal(1) ? tensor : tensor.apply("aten.mul.Scalar", {factor});
  };
  const Expr right = scaled(product, alpha);
  if (call.constant(beta).toScalar().equal(0)) return {right.value};
  return {(scaled(call.tensor(0), beta) + right).value};
}

template <const char* kProduct>
std::vector<Value> add_product(const Call& call) {
  return combine(call, call.tensor(1).apply(kProduct, {call.tensor(2).value}), 3, 4);
}
constexpr char kMm[] = "aten.mm";
constexpr char kBmm[] = "aten.bmm";
constexpr char kMv[] = "aten.mv";

std::vector<Value> addbmm(const Call& call) {
  return combine(call, call.tensor(1).apply("aten.bmm", {call.tensor(2).value}).sum({0}, /*keepdim=*/false), 3, 4);
}

std::vector<Value> linear(const Call& call) {
  const Expr x = call.tensor(0);
  const Expr weight = call.tensor(1);
  if (x.rank() < 2 || weight.rank() != 2) return {};
  auto sizes = x.meta().size_hints();
  sizes.back() = weight.size(0);
  const int64_t rows = x.size(-1) == 0 ? -1 : x.meta().numel() / x.size(-1);
  if (rows < 0) return {};
  const Expr flat = x.rank() == 2 ? x : x.view({rows, x.size(-1)});
  const Expr product = flat.apply("aten.mm", {weight.apply("aten.t").value});
  const Expr shaped = x.rank() == 2 ? product : product.view(sizes);
  const auto bias = call.optional_tensor(2);
  return {bias ? (shaped + *bias).value : shaped.value};
}

}  // namespace

std::vector<Decomposition> linear_decompositions() {
  return {
      {"aten.addmm", "linear", add_product<kMm>}, {"aten.baddbmm", "linear", add_product<kBmm>},
      {"aten.addmv", "linear", add_product<kMv>}, {"aten.addbmm", "linear", addbmm},
      {"aten.linear", "linear", linear},
  };
}

}  // namespace diptych::detail
