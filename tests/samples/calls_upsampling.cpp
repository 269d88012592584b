// Resizing and its gradients, against eager.
#include <ATen/ATen.h>
#include <limits>

#include "samples/families.h"

namespace diptych::test {
namespace upsampling_calls {
namespace {

struct ResizeCase {
  std::vector<int64_t> x, output;
  std::vector<c10::IValue> scales;  ///< None, or the factor
};

const ResizeCase kResizeCases[] = {
    {{2, 3, 5}, {10}, {{}}},
    {{2, 3, 4, 5}, {8, 10}, {{}, {}}},
    {{2, 3, 4, 5}, {12, 10}, {3.0, 2.0}},
    {{2, 3, 4, 5}, {7, 3}, {{}, {}}},
    {{2, 3, 4, 6}, {6, 9}, {1.5, 1.5}},
    {{2, 3, 4, 5}, {4, 1}, {{}, {}}},
    {{1, 2, 3, 4, 2}, {6, 4, 6}, {{}, {}, {}}},
};

const char* const kLinearNames[] = {"aten.upsample_linear1d", "aten.upsample_bilinear2d", "aten.upsample_trilinear3d"};

void expect_resize(Samples& out, const ResizeCase& example, const std::string& op, at::ScalarType dtype,
                   const std::vector<c10::IValue>& options, bool is_backward_too = true) {
  const at::Tensor x = at::randn(example.x).to(dtype);
  std::vector<c10::IValue> rest{ints(example.output)};
  rest.insert(rest.end(), options.begin(), options.end());
  for (const auto& scale : example.scales) rest.emplace_back(scale);
  add(out, op, {x}, rest);
  add(out, op, {x.contiguous(x.dim() == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous)}, rest);
  if (!is_backward_too) return;
  auto sizes = example.x;
  std::copy(example.output.begin(), example.output.end(), sizes.begin() + 2);
  rest.insert(rest.begin() + 1, ints(example.x));
  add(out, op + "_backward", {at::randn(sizes).to(dtype)}, rest);
}

void nearest(Samples& out) {
  for (const auto& example : kResizeCases) {
    const std::string op = "aten.upsample_nearest" + std::to_string(example.output.size()) + "d";
    expect_resize(out, example, op, at::kFloat, {});
  }
  expect_resize(out, kResizeCases[2], "aten.upsample_nearest2d", at::kBFloat16, {});
  expect_resize(out, kResizeCases[2], "aten.upsample_nearest2d", at::kDouble, {});
  add(out, "aten.upsample_nearest2d", {at::randint(0, 9, {1, 2, 3, 3}).to(at::kByte)}, {ints({6, 9})});
}

void nearest_middles(Samples& out) {
  for (const auto& example : kResizeCases) {
    const std::string op = "aten._upsample_nearest_exact" + std::to_string(example.output.size()) + "d";
    expect_resize(out, example, op, at::kFloat, {});
  }
  expect_resize(out, kResizeCases[3], "aten._upsample_nearest_exact2d", at::kDouble, {});
  expect_resize(out, kResizeCases[2], "aten._upsample_nearest_exact2d", at::kBFloat16, {});
}

void cubic_and_filters(Samples& out) {
  for (const auto& example : kResizeCases) {
    if (example.output.size() != 2) continue;
    for (const bool aligns_corners : {false, true}) {
      for (const char* const op :
           {"aten.upsample_bicubic2d", "aten._upsample_bilinear2d_aa", "aten._upsample_bicubic2d_aa"}) {
        expect_resize(out, example, op, at::kFloat, {c10::IValue(aligns_corners)});
      }
    }
  }
  for (const auto dtype : {at::kDouble, at::kBFloat16, at::kHalf}) {
    expect_resize(out, kResizeCases[3], "aten.upsample_bicubic2d", dtype, {c10::IValue(false)}, dtype == at::kDouble);
  }
  expect_resize(out, kResizeCases[3], "aten._upsample_bilinear2d_aa", at::kDouble, {c10::IValue(false)});
  at::Tensor x = at::randn({1, 1, 16, 16});
  x[0][0][15][15] = std::numeric_limits<float>::infinity(), x[0][0][0][0] = NAN;
  add(out, "aten._upsample_bilinear2d_aa", {x}, {ints({5, 3}), c10::IValue(false), c10::IValue(), c10::IValue()});
}

void linear(Samples& out) {
  for (const auto& example : kResizeCases) {
    for (const bool aligns_corners : {false, true}) {
      expect_resize(out, example, kLinearNames[example.output.size() - 1], at::kFloat, {c10::IValue(aligns_corners)});
    }
  }
  for (const auto dtype : {at::kDouble, at::kBFloat16, at::kHalf}) {
    expect_resize(out, kResizeCases[3], kLinearNames[1], dtype, {c10::IValue(false)}, dtype == at::kDouble);
  }
}

}  // namespace
}  // namespace upsampling_calls

Samples calls_upsampling() {
  using namespace upsampling_calls;
  Samples out;
  nearest(out);
  nearest_middles(out);
  cubic_and_filters(out);
  linear(out);
  return out;
}

}  // namespace diptych::test
