// Whether results are as near to the truth as eager's are: the judge of results that are not computed by eager's
// kernels.
//
// Note [As near as eager]
// Eager itself has other numbers on other CPUs: its kernels differ with the width of vectors, oneDNN's stand in for
// some of them, and what becomes of -0 or of an infinity may depend on whether an element is in a whole vector or at
// the tensor's end. So no number that was typed in here would be right on all of them. The truth is what eager gives
// in float64, by vectors and element by element. A result is right where it is eager's, where it is the truth rounded
// to its dtype, and where its error is at most twice what eager's is on these numbers or on some a little beside them
// (an element alone may be lucky), give or take a rounding to its dtype and some in the one that is computed in.
// There is no wider truth for float64: there eager's error is that of the same numbers in float32, as much smaller as
// the numbers are finer.
#pragma once
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "testing/rounding.h"
#include "testing/tensors.h"

namespace diptych::testing {

using TensorFunction = std::function<Tensors(const Tensors&)>;

/// Judges results of `function`, a function of tensors in eager.
class Judge {
 public:
  Judge(TensorFunction function, Tensors inputs) : function_(std::move(function)), inputs_(std::move(inputs)) {}

  /// Whether each element of `got`, result `index` of a function as compiled, is right. `eager` is the one of eager.
  /// Dtypes and sizes have to be the same. `moved` may say how far rounding carries each element of what computed it,
  /// as where terms cancel, of which eager may have lost nothing by luck; it is asked where that decides.
  ::testing::AssertionResult is_right(const at::Tensor& got, const at::Tensor& eager, size_t index = 0,
                                      const std::function<at::Tensor()>& moved = {}) {
    if (got.dtype() != eager.dtype() || got.sizes() != eager.sizes()) {
      return ::testing::AssertionFailure()
             << "is " << got.toString() << got.sizes() << ", expected " << eager.toString() << eager.sizes();
    }
    at::Tensor right = same_numbers(got, eager);
    if (!is_inexact(eager) || right.all().item<bool>()) return verdict(right, got, eager);
    look();
    const Truths truths = truths_of(eager, index);
    const at::Tensor own = own_error(eager, truths, index);
    for (const at::Tensor& truth : truths) right = right | is_near(got, truth, own * 2);
    if (moved && !right.all().item<bool>()) right = right | is_near(got, truths[0], moved());
    return verdict(right, got, eager) << "\nin float64\n" << truths[0].masked_select(right.logical_not());
  }
  /// The same of a list.
  ::testing::AssertionResult are_right(const Tensors& got, const Tensors& eager) {
    if (got.size() != eager.size()) {
      return ::testing::AssertionFailure() << got.size() << " results, expected " << eager.size();
    }
    for (size_t i = 0; i < got.size(); ++i) {
      if (const auto right = is_right(got[i], eager[i], i); !right) {
        return ::testing::AssertionFailure() << "result " << i << " " << right.message();
      }
    }
    return ::testing::AssertionSuccess();
  }

 private:
  using Truths = Tensors;
  /// What eager gives for some numbers in their dtype, or a narrower one, and in float64.
  struct Sight {
    Tensors rounded, exact;
  };
  static constexpr int kNeighbours = 6;

  static at::ScalarType narrow(at::ScalarType dtype) {
    return dtype == at::kDouble ? at::kFloat : dtype == at::kComplexDouble ? at::kComplexFloat : dtype;
  }
  static Tensors converted(Tensors tensors, at::ScalarType (*dtype)(at::ScalarType)) {
    for (at::Tensor& tensor : tensors) tensor = tensor.to(dtype(tensor.scalar_type()));
    return tensors;
  }
  // With gaps between the elements, so that kernels take them one by one.
  static Tensors apart(Tensors tensors) {
    for (at::Tensor& tensor : tensors) {
      if (is_inexact(tensor)) tensor = at::stack({tensor, tensor}, -1).select(-1, 0);
    }
    return tensors;
  }
  // Each inexact number up to a thousandth larger or smaller.
  static Tensors beside(Tensors tensors, uint64_t seed) {
    auto generator = at::detail::createCPUGenerator(seed);
    for (at::Tensor& tensor : tensors) {
      if (!is_inexact(tensor)) continue;
      const auto shift = at::rand(tensor.sizes(), generator, at::TensorOptions(at::kDouble)).sub(0.5).mul(1.0 / 512);
      tensor = tensor.to(wide_dtype(tensor.scalar_type())).mul(shift.add(1)).to(tensor.scalar_type());
    }
    return tensors;
  }

  // None where eager has none.
  Tensors results(const Tensors& inputs) const {
    try {
      return function_(inputs);
    } catch (const std::exception&) {
      return {};
    }
  }
  Sight sight_of(const Tensors& inputs) const {
    const Tensors rounded = converted(inputs, narrow);
    return {results(rounded), results(converted(rounded, wide_dtype))};
  }
  void look() {
    if (!sights_.empty()) return;
    sights_.push_back(sight_of(inputs_));
    for (int i = 1; i <= kNeighbours; ++i) sights_.push_back(sight_of(beside(inputs_, i)));
    exact_ = {results(converted(inputs_, wide_dtype)), results(apart(converted(inputs_, wide_dtype)))};
  }

  Truths truths_of(const at::Tensor& eager, size_t index) const {
    Truths truths;
    for (const Tensors& exact : exact_) {
      if (index < exact.size() && exact[index].defined() && exact[index].sizes() == eager.sizes()) {
        truths.push_back(exact[index].to(wide_dtype(eager.scalar_type())));
      }
    }
    if (truths.empty()) truths.push_back(eager.to(wide_dtype(eager.scalar_type())));
    return truths;
  }
  // What a result is wrong by, besides that it is rounded to its dtype.
  static at::Tensor error_of(const at::Tensor& rounded, const at::Tensor& exact) {
    const at::Tensor truth = exact.to(wide_dtype(exact.scalar_type()));
    const at::Tensor error =
        (rounded.to(truth.scalar_type()) - truth).abs() - truth.abs() * (unit_of(rounded.scalar_type()) / 2);
    return at::where(at::isfinite(error), error, at::zeros({}, error.options())).clamp_min(0);
  }
  // Of each element: the largest error of eager.
  at::Tensor own_error(const at::Tensor& eager, const Truths& truths, size_t index) const {
    at::Tensor own = error_of(eager, truths[0]);
    for (const Sight& sight : sights_) {
      if (index >= sight.rounded.size() || index >= sight.exact.size()) continue;
      const at::Tensor &rounded = sight.rounded[index], &exact = sight.exact[index];
      if (!rounded.defined() || !exact.defined() || !is_inexact(rounded) || rounded.sizes() != own.sizes()) continue;
      const double finer = unit_of(eager.scalar_type()) / unit_of(rounded.scalar_type());
      own = at::maximum(own, error_of(rounded, exact) * std::min(finer, 1.0));
    }
    return own;
  }
  static ::testing::AssertionResult verdict(const at::Tensor& right, const at::Tensor& got, const at::Tensor& eager) {
    if (right.all().item<bool>()) return ::testing::AssertionSuccess();
    const at::Tensor wrong = right.logical_not();
    return ::testing::AssertionFailure() << "differs at\n"
                                         << wrong.nonzero() << "\nis\n"
                                         << got.masked_select(wrong) << "\neager's\n"
                                         << eager.masked_select(wrong);
  }

  TensorFunction function_;
  Tensors inputs_;
  std::vector<Sight> sights_;   // of the inputs themselves, and of some beside them
  std::vector<Tensors> exact_;  // results in float64, by vectors and element by element
};

/// Whether `got` is right as the results of `function` at `inputs`.
inline ::testing::AssertionResult as_near_as_eager(const Tensors& got, const TensorFunction& function,
                                                   const Tensors& inputs) {
  return Judge(function, inputs).are_right(got, function(inputs));
}

}  // namespace diptych::testing
