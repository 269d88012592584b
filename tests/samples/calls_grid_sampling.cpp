// Sampling at the points of a grid, and its gradients, against eager.
#include <ATen/ATen.h>

#include "samples/families.h"

namespace diptych::test {
namespace grid_sampling_calls {
namespace {

constexpr int64_t kCubic = 2;

struct GridCase {
  std::vector<int64_t> images, grid;
};
const GridCase kGridCases[] = {
    {{2, 3, 5, 4}, {2, 3, 6, 2}},
    {{1, 2, 1, 3}, {1, 2, 2, 2}},
    {{2, 3, 3, 4, 5}, {2, 2, 3, 2, 3}},
};

// All modes, forward and backward.
void expect_sampling(Samples& out, const at::Tensor& images, const at::Tensor& grid, bool is_backward_too = true) {
  const std::string op = images.dim() == 4 ? "aten.grid_sampler_2d" : "aten.grid_sampler_3d";
  const at::Tensor example = images.dim() == 4 ? at::grid_sampler_2d(images, grid, 0, 0, false)
                                               : at::grid_sampler_3d(images, grid, 0, 0, false);
  const at::Tensor gradient = at::randn_like(example);
  const auto both = c10::IValue(c10::List<bool>({true, true}));
  for (int64_t mode = 0; mode <= (images.dim() == 4 ? kCubic : 1); ++mode) {
    for (int64_t padding = 0; padding < 3; ++padding) {
      for (const bool aligns_corners : {false, true}) {
        const std::vector<c10::IValue> options{c10::IValue(mode), c10::IValue(padding), c10::IValue(aligns_corners)};
        add(out, op, {images, grid}, options);
        // A cubic gradient takes a second to compile; corners are the same to it.
        if (!is_backward_too || (mode == kCubic && aligns_corners)) continue;
        add(out, op + "_backward", {gradient, images, grid, mode, padding, aligns_corners, both});
      }
    }
  }
}

void modes(Samples& out) {
  // Points inside and outside.
  for (const GridCase& example : kGridCases) {
    expect_sampling(out, at::randn(example.images), at::randn(example.grid) * 1.5);
  }
  expect_sampling(out, at::randn(kGridCases[0].images, at::kDouble), at::randn(kGridCases[0].grid, at::kDouble));
}

void middles_and_edges(Samples& out) {
  for (const GridCase& example : {kGridCases[0], kGridCases[2]}) {
    expect_sampling(out, at::randn(example.images), at::randint(-6, 7, example.grid).to(at::kFloat) / 4, false);
  }
}

void numbers_that_are_not_finite(Samples& out) {
  const at::Tensor numbers = at::tensor({kNan, kInf, -kInf, 0.25}).to(at::kFloat);
  const at::Tensor points = at::stack({numbers, at::zeros({4})}, 1).reshape({1, 2, 2, 2});
  const at::Tensor volume = at::stack({at::zeros({4}), numbers, at::zeros({4})}, 1).reshape({1, 2, 2, 1, 3});
  expect_sampling(out, at::randn({1, 2, 3, 4}), points, false);
  expect_sampling(out, at::randn({1, 2, 3, 4, 3}), volume, false);
}

void gradients_that_are_not_asked_for(Samples& out) {
  const auto only_grid = c10::IValue(c10::List<bool>({false, true}));
  const at::Tensor x = at::randn({1, 2, 3, 4}), points = at::randn({1, 2, 2, 2}), gradient = at::randn({1, 2, 2, 2});
  add(out, "aten.grid_sampler_2d_backward", {gradient, x, points, 0, 0, false, only_grid});
  add(out, "aten.grid_sampler_2d",
      {at::randn({1, 2, 3, 4}).to(at::kHalf), at::randn({1, 2, 2, 2}).to(at::kHalf), 0, 0, false});
}

}  // namespace
}  // namespace grid_sampling_calls

Samples calls_grid_sampling() {
  using namespace grid_sampling_calls;
  Samples out;
  modes(out);
  middles_and_edges(out);
  numbers_that_are_not_finite(out);
  gradients_that_are_not_asked_for(out);
  return out;
}

}  // namespace diptych::test
