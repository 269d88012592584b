// Scaled dot-product attention and its gradient, against eager.
#include <ATen/ATen.h>
#include <cmath>
#include <limits>

#include "samples/families.h"

namespace diptych::test {
namespace attention_calls {
namespace {

struct AttentionCase {
  int64_t places = 5, keys = 5, heads = 4, key_heads = 4;
  bool is_causal = false;
  at::Tensor mask = {};
  c10::IValue scale = {};
  at::ScalarType dtype = at::kFloat;
};

void expect_attention(Samples& out, const AttentionCase& example) {
  // The layout that heads have after they were split.
  const auto tensor = [&](int64_t places, int64_t heads) {
    return at::randn({2, places, heads, 4}).to(example.dtype).transpose(1, 2);
  };
  const at::Tensor query = tensor(example.places, example.heads), key = tensor(example.keys, example.key_heads);
  const at::Tensor value = tensor(example.keys, example.key_heads), gradient = tensor(example.places, example.heads);
  const c10::IValue mask = example.mask.defined() ? c10::IValue(example.mask) : c10::IValue();
  const c10::IValue dropout = 0.0, causal = example.is_causal;
  add(out, "aten._scaled_dot_product_flash_attention_for_cpu",
      {query, key, value, dropout, causal, mask, example.scale});
  const auto results = eager(out.back());
  add(out, "aten._scaled_dot_product_flash_attention_for_cpu_backward",
      {gradient, query, key, value, results[0], results[1], dropout, causal, mask, example.scale});
}

at::Tensor mask_of(at::IntArrayRef sizes) {
  return at::randn(sizes).masked_fill(at::rand(sizes) < 0.3, -std::numeric_limits<double>::infinity());
}

void cases(Samples& out) {
  for (const bool is_causal : {false, true}) {
    expect_attention(out, {.is_causal = is_causal});
    expect_attention(out, {.places = 3, .keys = 7, .is_causal = is_causal});
    expect_attention(out, {.places = 7, .keys = 3, .is_causal = is_causal, .scale = 0.3});
    expect_attention(out, {.places = 1, .keys = 6, .heads = 4, .key_heads = 2, .is_causal = is_causal});
    expect_attention(out, {.keys = 6, .heads = 6, .key_heads = 2, .is_causal = is_causal});
    expect_attention(out, {.is_causal = is_causal, .dtype = at::kDouble});
    expect_attention(out, {.is_causal = is_causal, .dtype = at::kBFloat16});
  }
  expect_attention(out, {.places = 600, .keys = 700, .heads = 2, .key_heads = 1, .is_causal = true});
}

void masks(Samples& out) {
  for (const auto& sizes : {std::vector<int64_t>{5, 5}, {1, 5}, {2, 1, 5, 5}, {1, 4, 5, 5}, {2, 1, 1, 5}}) {
    at::Tensor mask = mask_of(sizes);
    mask.select(-1, 0).fill_(0);
    expect_attention(out, {.mask = mask});
  }
  at::Tensor mask = mask_of({5, 5});
  mask[2].fill_(-std::numeric_limits<double>::infinity());
  expect_attention(out, {.mask = mask});
  expect_attention(out, {.mask = at::zeros({5, 5}), .dtype = at::kBFloat16});
}

void infinity_and_nan(Samples& out) {
  const at::Tensor x = at::randn({1, 2, 3, 4});
  for (const double odd : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity()}) {
    at::Tensor query = x.clone();
    query[0][0][1][1] = odd;
    add(out, "aten._scaled_dot_product_flash_attention_for_cpu", {query, x, x});
    add(out, "aten._scaled_dot_product_flash_attention_for_cpu", {query, query, query},
        {c10::IValue(0.0), c10::IValue(true)});
  }
}

void safe_softmax(Samples& out) {
  at::Tensor x = at::randn({3, 4, 5});
  x[1][2].fill_(-std::numeric_limits<double>::infinity());
  x[0][0][0] = NAN, x[0][1][1] = std::numeric_limits<double>::infinity(),
  x[2][2][2] = -std::numeric_limits<double>::infinity();
  for (const int64_t dim : {-1, 0, 1}) add(out, "aten._safe_softmax", {x}, {c10::IValue(dim)});
  add(out, "aten._safe_softmax", {x.to(at::kBFloat16)}, {c10::IValue(2)});
  add(out, "aten._safe_softmax", {x.to(at::kHalf)}, {c10::IValue(2), c10::IValue(static_cast<int64_t>(at::kFloat))});
  add(out, "aten._safe_softmax", {at::randn({0, 3})}, {c10::IValue(1)});
  add(out, "aten._safe_softmax", {at::randn({3, 0})}, {c10::IValue(1)});
  for (const double number : {1.5, -std::numeric_limits<double>::infinity()}) {
    add(out, "aten._safe_softmax", {at::full({}, number)}, {c10::IValue(0)});
  }
}

}  // namespace
}  // namespace attention_calls

Samples calls_attention() {
  using namespace attention_calls;
  Samples out;
  cases(out);
  masks(out);
  infinity_and_nan(out);
  safe_softmax(out);
  return out;
}

}  // namespace diptych::test
