// Products of matrices, against eager.
#include <ATen/ATen.h>

#include "samples/families.h"

namespace diptych::test {
namespace product_calls {
namespace {

at::Tensor factors(at::IntArrayRef sizes, at::ScalarType dtype) {
  if (at::isIntegralType(dtype, true)) return at::randint(0, 9, sizes).to(dtype);
  return at::randn(sizes, at::isReducedFloatingType(dtype) ? at::kFloat : dtype).to(dtype);
}
c10::IValue numeral(double value) { return at::Scalar(value); }
c10::IValue numeral(int64_t value) { return at::Scalar(value); }

void every_dtype(Samples& out) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort,
                           at::kByte, at::kChar, at::kComplexFloat, at::kComplexDouble}) {
    add(out, "aten.mm", {factors({3, 5}, dtype), factors({5, 4}, dtype)});
    add(out, "aten.bmm", {factors({2, 3, 5}, dtype), factors({2, 5, 4}, dtype)});
    add(out, "aten.mv", {factors({3, 5}, dtype), factors({5}, dtype)});
    add(out, "aten.dot", {factors({5}, dtype), factors({5}, dtype)});
    add(out, "aten.addmm", {factors({4}, dtype), factors({3, 5}, dtype), factors({5, 4}, dtype)},
        {numeral(int64_t{2}), numeral(int64_t{3})});
  }
}

void layouts_and_empty_tensors(Samples& out) {
  add(out, "aten.mm", {at::randn({5, 3}).t(), at::randn({4, 5}).t()});
  add(out, "aten.mm", {at::randn({6, 5}).slice(0, 0, 6, 2), at::randn({1, 4}).expand({5, 4})});
  add(out, "aten.bmm", {at::randn({2, 5, 3}).transpose(1, 2), at::randn({4, 2, 5}).permute({1, 2, 0})});
  add(out, "aten.mm", {at::randn({3, 0}), at::randn({0, 4})});
  add(out, "aten.mm", {at::randn({0, 5}), at::randn({5, 4})});
  add(out, "aten.bmm", {at::randn({0, 3, 5}), at::randn({0, 5, 4})});
  add(out, "aten.mv", {at::randn({3, 0}), at::randn({0})});
  add(out, "aten.dot", {at::randn({0}), at::randn({0})});
  add(out, "aten.addmm", {at::randn({4}), at::randn({3, 0}), at::randn({0, 4})}, {numeral(2.0), numeral(1.0)});
}

void what_is_added(Samples& out) {
  const at::Tensor a = at::randn({3, 5}), b = at::randn({5, 4});
  for (const auto& sizes : {std::vector<int64_t>{4}, {3, 4}, {3, 1}, {1, 4}, {1}, {}}) {
    add(out, "aten.addmm", {at::randn(sizes), a, b}, {numeral(0.5), numeral(-1.5)});
  }
  add(out, "aten.addmm", {at::full({4}, NAN), a, b}, {numeral(0.0)});
  add(out, "aten.addmm", {at::full({4}, NAN), a, b});
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kComplexFloat}) {
    const at::Tensor left = factors({2, 3, 5}, dtype), right = factors({2, 5, 4}, dtype);
    const c10::IValue beta = numeral(int64_t{2}), alpha = numeral(int64_t{-1});
    add(out, "aten.baddbmm", {factors({4}, dtype), left, right}, {beta, alpha});
    add(out, "aten.baddbmm", {factors({2, 3, 4}, dtype), left, right}, {numeral(int64_t{0}), alpha});
    add(out, "aten.addbmm", {factors({3, 4}, dtype), left, right}, {beta, alpha});
    add(out, "aten.addmv", {factors({3}, dtype), left[0], factors({5}, dtype)}, {beta, alpha});
    add(out, "aten.addr", {factors({3, 4}, dtype), factors({3}, dtype), factors({4}, dtype)}, {beta, alpha});
    add(out, "aten.addr", {factors({4}, dtype), factors({3}, dtype), factors({4}, dtype)});
  }
  add(out, "aten.addmv", {at::randn({}), a, at::randn({5})}, {numeral(0.5)});
  add(out, "aten.addbmm", {at::randn({3, 4}), at::randn({0, 3, 5}), at::randn({0, 5, 4})});
  add(out, "aten.addr", {at::full({3, 4}, NAN), at::randn({3}), at::randn({4})}, {numeral(0.0)});
}

void vectors_and_sums_of_three(Samples& out) {
  for (const auto dtype : {at::kFloat, at::kLong, at::kBool, at::kComplexFloat, at::kHalf}) {
    add(out, "aten.outer", {factors({3}, dtype), factors({4}, dtype)});
  }
  add(out, "aten.outer", {factors({3}, at::kLong), factors({4}, at::kFloat)});
  add(out, "aten.ger", {at::randn({0}), at::randn({4})});
  add(out, "aten.vdot", {at::randn({5}), at::randn({5})});
  for (const auto& sizes : {std::vector<int64_t>{3, 5}, {2, 3, 5}, {2, 0, 5}, {1, 5}, {5}}) {
    add(out, "aten.linear", {at::randn(sizes), at::randn({4, 5}), at::randn({4})});
  }
  add(out, "aten.linear", {at::randn({2, 5}, at::kFloat).to(at::kBFloat16), at::randn({4, 5}).to(at::kBFloat16)});
  const auto list = [](std::vector<int64_t> values) { return ints(std::move(values)); };
  // F.bilinear's product, and its gradients'.
  add(out, "aten._trilinear", {at::randn({6, 3}), at::randn({5, 3, 4}), at::randn({6, 4})},
      {list({1, 3}), list({0}), list({1, 2}), list({2, 3})});
  add(out, "aten._trilinear", {at::randn({6, 3}), at::randn({6, 5}), at::randn({6, 4})},
      {list({1, 3}), list({2, 3}), list({1, 2}), list({0})});
}

}  // namespace
}  // namespace product_calls

Samples calls_product() {
  using namespace product_calls;
  Samples out;
  every_dtype(out);
  layouts_and_empty_tensors(out);
  what_is_added(out);
  vectors_and_sums_of_three(out);
  return out;
}

}  // namespace diptych::test
