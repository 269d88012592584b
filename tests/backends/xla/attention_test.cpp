// Scaled dot-product attention and its gradient, against eager.
#include <limits>

#include "backends/xla/xla_check.h"

namespace diptych {
namespace {

using testing::expect_lowered;
using testing::XlaCheck;

struct AttentionCase {
  int64_t places = 5, keys = 5, heads = 4, key_heads = 4;
  bool is_causal = false;
  at::Tensor mask = {};
  c10::IValue scale = {};
  at::ScalarType dtype = at::kFloat;
};

void expect_attention(const AttentionCase& example) {
  XlaCheck check;
  // The layout that heads have after they were split.
  const auto tensor = [&](int64_t places, int64_t heads) {
    return check.input(at::randn({2, places, heads, 4}).to(example.dtype).transpose(1, 2));
  };
  const Value query = tensor(example.places, example.heads), key = tensor(example.keys, example.key_heads);
  const Value value = tensor(example.keys, example.key_heads), gradient = tensor(example.places, example.heads);
  const Operand mask = example.mask.defined() ? Operand(check.input(example.mask)) : Operand(c10::IValue());
  const c10::IValue dropout = 0.0, causal = example.is_causal;
  const auto outputs = check.nodes("aten._scaled_dot_product_flash_attention_for_cpu",
                                   {query, key, value, dropout, causal, mask, example.scale});
  auto results =
      check.nodes("aten._scaled_dot_product_flash_attention_for_cpu_backward",
                  {gradient, query, key, value, outputs[0], outputs[1], dropout, causal, mask, example.scale});
  results.insert(results.end(), outputs.begin(), outputs.end());
  check.expect_eager(results);
}

at::Tensor mask_of(at::IntArrayRef sizes) {
  return at::randn(sizes).masked_fill(at::rand(sizes) < 0.3, -std::numeric_limits<double>::infinity());
}

TEST(XlaAttention, Cases) {
  at::manual_seed(0);
  for (const bool is_causal : {false, true}) {
    expect_attention({.is_causal = is_causal});
    expect_attention({.places = 3, .keys = 7, .is_causal = is_causal});
    expect_attention({.places = 7, .keys = 3, .is_causal = is_causal, .scale = 0.3});
    expect_attention({.places = 1, .keys = 6, .heads = 4, .key_heads = 2, .is_causal = is_causal});
    expect_attention({.keys = 6, .heads = 6, .key_heads = 2, .is_causal = is_causal});
    expect_attention({.is_causal = is_causal, .dtype = at::kDouble});
    expect_attention({.is_causal = is_causal, .dtype = at::kBFloat16});
  }
  expect_attention({.places = 600, .keys = 700, .heads = 2, .key_heads = 1, .is_causal = true});
}

TEST(XlaAttention, Masks) {
  at::manual_seed(0);
  for (const at::IntArrayRef sizes : {at::IntArrayRef{5, 5}, {1, 5}, {2, 1, 5, 5}, {1, 4, 5, 5}, {2, 1, 1, 5}}) {
    at::Tensor mask = mask_of(sizes);
    mask.select(-1, 0).fill_(0);
    expect_attention({.mask = mask});
  }
  at::Tensor mask = mask_of({5, 5});
  mask[2].fill_(-std::numeric_limits<double>::infinity());
  expect_attention({.mask = mask});
  expect_attention({.mask = at::zeros({5, 5}), .dtype = at::kBFloat16});
}

TEST(XlaAttention, InfinityAndNan) {
  at::manual_seed(0);
  const at::Tensor x = at::randn({1, 2, 3, 4});
  for (const double odd : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity()}) {
    at::Tensor query = x.clone();
    query[0][0][1][1] = odd;
    expect_lowered("aten._scaled_dot_product_flash_attention_for_cpu", {query, x, x});
    expect_lowered("aten._scaled_dot_product_flash_attention_for_cpu", {query, query, query},
                   {c10::IValue(0.0), c10::IValue(true)});
  }
}

TEST(XlaAttention, SafeSoftmax) {
  at::manual_seed(0);
  at::Tensor x = at::randn({3, 4, 5});
  x[1][2].fill_(-std::numeric_limits<double>::infinity());
  x[0][0][0] = NAN, x[0][1][1] = std::numeric_limits<double>::infinity(),
  x[2][2][2] = -std::numeric_limits<double>::infinity();
  for (const int64_t dim : {-1, 0, 1}) expect_lowered("aten._safe_softmax", {x}, {c10::IValue(dim)});
  expect_lowered("aten._safe_softmax", {x.to(at::kBFloat16)}, {c10::IValue(2)});
  expect_lowered("aten._safe_softmax", {x.to(at::kHalf)},
                 {c10::IValue(2), c10::IValue(static_cast<int64_t>(at::kFloat))});
  expect_lowered("aten._safe_softmax", {at::randn({0, 3})}, {c10::IValue(1)});
  expect_lowered("aten._safe_softmax", {at::randn({3, 0})}, {c10::IValue(1)});
  for (const double number : {1.5, -std::numeric_limits<double>::infinity()}) {
    expect_lowered("aten._safe_softmax", {at::full({}, number)}, {c10::IValue(0)});
  }
}

}  // namespace
}  // namespace diptych
