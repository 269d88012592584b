// Every message of dp::associative_scan.
#include "testing/refusal.h"

namespace diptych::testing {
namespace {

using Pair2 = std::pair<at::Tensor, at::Tensor>;

Pair2 add_pairs(const Pair2& a, const Pair2& b) { return {a.first + b.first, a.second + b.second}; }

/// Expects the refusal in eager and inside a capture.
template <class F, class Xs>
void expect_scan_refused(const F& f, const Xs& xs, const std::vector<std::string>& parts,
                         const AssociativeScanOptions& options = {}) {
  expect_refusal([&] { (void)associative_scan(f, xs, options); }, parts);
  expect_capture_refused([&](const at::Tensor&) { return flatten(associative_scan(f, xs, options)).tensors; }, parts,
                         torch::ones({2}));
}

TEST(AssociativeScanErrors, LeavesOfUnequalLength) {
  expect_scan_refused(
      add_pairs, Pair2(torch::ones({4, 3}), torch::ones({5})),
      {"[associative_scan] got 'xs.1' as f32[5], of length 5 along dim 0, expected 4, the length of 'xs.0'",
       "give all leaves one length"});
}

TEST(AssociativeScanErrors, ADimThatALeafDoesNotHave) {
  const Pair2 xs(torch::ones({4, 3}), torch::ones({3}));
  expect_scan_refused(add_pairs, xs,
                      {"[associative_scan] got dim 1, which 'xs.1', f32[3], does not have, expected -1 to 0"},
                      {.dim = 1});
  expect_scan_refused(add_pairs, xs, {"got dim -3, which 'xs.0', f32[4,3], does not have, expected -2 to 1"},
                      {.dim = -3});
}

TEST(AssociativeScanErrors, ALeafWithoutDimensions) {
  expect_scan_refused(
      add_pairs, Pair2(torch::ones({4}), torch::ones({})),
      {"[associative_scan] got 'xs.1' as f32[], a scalar, expected a sequence along dim 0", "let f capture it"});
}

TEST(AssociativeScanErrors, ASparseLeaf) {
  expect_scan_refused(add_pairs, Pair2(torch::ones({4}), torch::eye(4).to_sparse()),
                      {"[associative_scan] got 'xs.1', a tensor of layout Sparse", "call to_dense()"});
}

TEST(AssociativeScanErrors, ATreeWithoutTensors) {
  const auto f = [](const Tensors& a, const Tensors&) { return a; };
  expect_scan_refused(f, Tensors{}, {"[associative_scan] got xs without a tensor, expected at least one"});
}

TEST(AssociativeScanErrors, AnUndefinedLeaf) {
  expect_scan_refused(add_pairs, Pair2(torch::ones({4}), at::Tensor()),
                      {"[associative_scan] got an undefined tensor as 'xs.1', expected a sequence"});
}

TEST(AssociativeScanErrors, AnotherStructureFromTheFunction) {
  const auto longer = [](const Tensors& a, const Tensors& b) -> Tensors { return {a[0], b[0]}; };
  expect_scan_refused(longer, Tensors{torch::ones({4})},
                      {"[associative_scan] f got and returned different structures: xs: expected a vector of 1, got 2",
                       "return the structure that it got"});
  const auto bare = [](const Tensors& a, const Tensors&) { return a[0]; };
  expect_scan_refused(bare, Tensors{torch::ones({4})}, {"xs: expected a vector of 1, got a tensor"});
}

TEST(AssociativeScanErrors, AnotherShapeFromTheFunction) {
  const auto shrink = [](const Pair2& a, const Pair2& b) { return Pair2(a.first, b.second.sum(0, true)); };
  expect_scan_refused(shrink, Pair2(torch::ones({4}), torch::ones({4, 3})),
                      {"[associative_scan] f returned 'xs.1' as f32[1,3], expected f32[2,3], the type that it got",
                       "combine element by element along dim 0"});
}

TEST(AssociativeScanErrors, AnotherDtypeFromTheFunction) {
  const auto widen = [](const Pair2& a, const Pair2& b) { return Pair2(a.first, b.second.to(torch::kDouble)); };
  expect_scan_refused(widen, Pair2(torch::ones({4}), torch::ones({4})),
                      {"[associative_scan] f returned 'xs.1' as f64[2], expected f32[2], the type that it got",
                       "convert it in f with to()"});
}

TEST(AssociativeScanErrors, AnUndefinedTensorFromTheFunction) {
  const auto forget = [](const Pair2& a, const Pair2&) { return Pair2(a.first, at::Tensor()); };
  expect_scan_refused(forget, Pair2(torch::ones({4}), torch::ones({4})),
                      {"[associative_scan] f returned 'xs.1' as an undefined tensor, expected f32[2]"});
}

TEST(AssociativeScanErrors, AFunctionThatChangesItsArgument) {
  const auto x = torch::ones({4});
  const auto f = [](const Pair2& a, const Pair2& b) { return Pair2(a.first + b.first, a.second.add_(b.second)); };
  expect_scan_refused(f, Pair2(torch::ones({4}), torch::ones({4})),
                      {"[associative_scan] f changed its argument 'xs.1' in place, but that",
                       "use the operator without the underscore"});
  // Where a gradient is taken, autograd refuses it in its own words before anything is changed.
  const Pair2 leaves(torch::ones({4}).requires_grad_(), torch::ones({4}).requires_grad_());
  expect_refusal<c10::Error>([&] { (void)associative_scan(f, leaves); }, {"modified inplace"});
}

}  // namespace
}  // namespace diptych::testing
