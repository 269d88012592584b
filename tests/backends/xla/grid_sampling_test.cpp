// Sampling at the points of a grid, and its gradients, against eager.
#include "backends/xla/operator_calls.h"

namespace diptych {
namespace {

using testing::kInf;
using testing::kNan;

constexpr int64_t kCubic = 2;

struct GridCase {
  std::vector<int64_t> images, grid;
};
const GridCase kGridCases[] = {
    {{2, 3, 5, 4}, {2, 3, 6, 2}},
    {{1, 2, 1, 3}, {1, 2, 2, 2}},
    {{2, 3, 3, 4, 5}, {2, 2, 3, 2, 3}},
};

// All modes in one program, forward and backward.
void expect_sampling(const at::Tensor& images, const at::Tensor& grid, bool is_backward_too = true) {
  const std::string op = images.dim() == 4 ? "aten.grid_sampler_2d" : "aten.grid_sampler_3d";
  testing::XlaCheck check;
  const Value x = check.input(images), points = check.input(grid);
  const at::Tensor example = images.dim() == 4 ? at::grid_sampler_2d(images, grid, 0, 0, false)
                                               : at::grid_sampler_3d(images, grid, 0, 0, false);
  const Value gradient = check.input(at::randn_like(example));
  const auto both = c10::IValue(c10::List<bool>({true, true}));
  std::vector<Value> outputs;
  for (int64_t mode = 0; mode <= (images.dim() == 4 ? kCubic : 1); ++mode) {
    for (int64_t padding = 0; padding < 3; ++padding) {
      for (const bool aligns_corners : {false, true}) {
        const std::vector<Operand> options{c10::IValue(mode), c10::IValue(padding), c10::IValue(aligns_corners)};
        outputs.push_back(check.node(op, {x, points, options[0], options[1], options[2]}));
        // A cubic gradient takes a second to compile; corners are the same to it.
        if (!is_backward_too || (mode == kCubic && aligns_corners)) continue;
        const auto gradients =
            check.nodes(op + "_backward", {gradient, x, points, options[0], options[1], options[2], both});
        outputs.insert(outputs.end(), gradients.begin(), gradients.end());
      }
    }
  }
  check.expect_eager(outputs);
}

TEST(XlaGridSampling, Modes) {
  // Points inside and outside.
  for (const GridCase& example : kGridCases) {
    expect_sampling(at::randn(example.images), at::randn(example.grid) * 1.5);
  }
  expect_sampling(at::randn(kGridCases[0].images, at::kDouble), at::randn(kGridCases[0].grid, at::kDouble));
}

TEST(XlaGridSampling, MiddlesAndEdges) {
  for (const GridCase& example : {kGridCases[0], kGridCases[2]}) {
    expect_sampling(at::randn(example.images), at::randint(-6, 7, example.grid).to(at::kFloat) / 4, false);
  }
}

TEST(XlaGridSampling, NumbersThatAreNotFinite) {
  const at::Tensor numbers = at::tensor({kNan, kInf, -kInf, 0.25}).to(at::kFloat);
  const at::Tensor points = at::stack({numbers, at::zeros({4})}, 1).reshape({1, 2, 2, 2});
  const at::Tensor volume = at::stack({at::zeros({4}), numbers, at::zeros({4})}, 1).reshape({1, 2, 2, 1, 3});
  expect_sampling(at::randn({1, 2, 3, 4}), points, false);
  expect_sampling(at::randn({1, 2, 3, 4, 3}), volume, false);
}

TEST(XlaGridSampling, GradientsThatAreNotAskedFor) {
  const auto only_grid = c10::IValue(c10::List<bool>({false, true}));
  testing::XlaCheck check;
  const Value x = check.input(at::randn({1, 2, 3, 4})), points = check.input(at::randn({1, 2, 2, 2}));
  const Value gradient = check.input(at::randn({1, 2, 2, 2}));
  check.expect_eager(
      {check.nodes("aten.grid_sampler_2d_backward", {gradient, x, points, c10::IValue(int64_t{0}),
                                                     c10::IValue(int64_t{0}), c10::IValue(false), only_grid})[1]});
  testing::expect_not_lowered("aten.grid_sampler_2d", {at::randn({1, 2, 3, 4}).to(at::kHalf),
                                                       at::randn({1, 2, 2, 2}).to(at::kHalf), 0, 0, false});
}

}  // namespace
}  // namespace diptych
