// How far rounding may carry what a kernel computes.
//
// Note [Judged by its terms]
// Code adds in another order than the reference, fuses products and sums, and has functions that are off by a unit in
// the last place. What that makes of a result depends on the kernel: little of a chain of products, and anything of a
// sum whose terms cancel. So the kernel is evaluated in float64, and then again with each operation off by a random
// number of what it may round: a value by a unit in its last place, a sum of n terms by sqrt(n) units of the sum of
// its terms' magnitudes, which is the probabilistic bound of what its order may do (Higham and Mary, 2019). How far
// results move is how far apart code and reference may be.
#pragma once
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "diptych/native/kernel/evaluate.h"
#include "diptych/native/kernel/kernel.h"
#include "diptych/native/kernel/reduction.h"
#include "diptych/native/kernel/scalar_op.h"
#include "testing/rounding.h"
#include "testing/tensors.h"

namespace diptych::testing {

/// A kernel of constant sizes in float64, with two inputs more: what values of f32 and of f64 are off by, relatively.
class NoisyKernel {
 public:
  explicit NoisyKernel(const detail::Kernel& of) : of_(of), domains_(detail::value_domains(of)) {
    made_.name = of.name;
    made_.extents = of.extents;
    for (const auto dtype : of.inputs) made_.inputs.push_back(wide(dtype));
    made_.inputs.insert(made_.inputs.end(), 2, at::kDouble);
    for (const auto dtype : of.outputs) made_.outputs.push_back(wide(dtype));
    for (size_t i = 0; i < of.values.size(); ++i) places_.push_back(add_noisy(static_cast<int32_t>(i)));
    for (detail::KernelStore store : of.stores) {
      const double points = count(detail::store_domain(store, domains_));
      const bool adds = store.is_add && is_rounded(of.values[store.value].dtype);
      store.map = moved(store.map);
      store.value = adds ? noisy(places_[store.value], store.value, std::sqrt(points)) : places_[store.value];
      made_.stores.push_back(store);
    }
  }

  /// What it stores; draw 0 has no noise.
  Tensors run(const Tensors& inputs, const std::vector<int64_t>& output_counts, uint64_t draw) const {
    Tensors given, found;
    for (const at::Tensor& input : inputs) given.push_back(widened(input));
    auto generator = at::detail::createCPUGenerator(draw);
    for (const auto dtype : {at::kFloat, at::kDouble}) {
      const at::Tensor random = at::rand({noises_}, generator, at::TensorOptions(at::kDouble)).mul(2).sub(1);
      given.push_back(random.mul(draw == 0 ? 0 : unit_of(dtype)));
    }
    std::vector<detail::KernelMemory> reads, writes;
    for (const at::Tensor& input : given) reads.push_back(detail::KernelMemory::of(input));
    for (size_t i = 0; i < output_counts.size(); ++i) {
      found.push_back(at::zeros({output_counts[i]}, made_.outputs[i]));
      writes.push_back(detail::KernelMemory::of(found[i]));
    }
    detail::evaluate(made_, reads, writes, {});
    return found;
  }

 private:
  static constexpr int32_t kApart = 61;  // between the noises of two values at a point

  // In the same layout.
  static at::Tensor widened(const at::Tensor& input) {
    const auto count = static_cast<int64_t>(input.storage().nbytes() / input.itemsize());
    const at::Tensor all = input.as_strided({count}, {1}, 0).to(wide(input.scalar_type()));
    return all.as_strided(input.sizes(), input.strides(), input.storage_offset());
  }
  // Halves are storage, and stay rounded.
  static at::ScalarType wide(at::ScalarType dtype) {
    return dtype == at::kFloat ? at::kDouble : dtype == at::kComplexFloat ? at::kComplexDouble : dtype;
  }
  static bool is_rounded(at::ScalarType dtype) {
    return detail::has_dtype(detail::kFloats | detail::kComplexes, dtype);
  }
  double count(detail::DimSet dims) const {
    double points = 1;
    for (size_t d = 0; d < of_.extents.size(); ++d) {
      if (dims.contains(static_cast<int32_t>(d))) points *= static_cast<double>(of_.extents[d].factor);
    }
    return points;
  }

  int32_t add(at::ScalarType dtype, decltype(detail::KernelValue::made_by) made_by) {
    made_.values.push_back({dtype, std::move(made_by)});
    return static_cast<int32_t>(made_.values.size()) - 1;
  }
  int32_t scalar(std::string_view op, std::vector<int32_t> operands, at::ScalarType dtype = at::kDouble) {
    return add(dtype, detail::KernelScalar{detail::find_scalar_op(op), std::move(operands)});
  }
  int32_t number(double value) { return add(at::kDouble, detail::KernelConstant{{value}}); }

  detail::IndexMap moved(const detail::IndexMap& map) const {
    detail::IndexMap result;
    for (detail::IndexTerm term : map.terms()) {
      if (term.factor == detail::IndexFactor::kValue) term.id = places_[term.id];
      result.add(term);
    }
    return result;
  }

  // What each point of a value is off by, relatively: n roundings.
  int32_t noise(int32_t value, double n) {
    detail::IndexMap map;
    int64_t points = 1;
    for (auto d = static_cast<int32_t>(of_.extents.size()); d-- > 0;) {
      if (!domains_[value].contains(d)) continue;
      map.add(detail::dim_term({points}, d));
      points *= of_.extents[d].factor;
    }
    const int64_t offset = int64_t{kApart} * static_cast<int64_t>(made_.values.size());
    map.add(detail::offset_term({offset}));
    noises_ = std::max(noises_, offset + points);
    const auto real = c10::toRealValueType(of_.values[value].dtype);
    const auto input = static_cast<int32_t>(of_.inputs.size()) + (real == at::kFloat ? 0 : 1);
    const int32_t once = add(at::kDouble, detail::KernelLoad{input, map, {}});
    return n == 1 ? once : scalar("mul", {once, number(n)});
  }

  // `change` of a real number, or of both parts of a complex one.
  template <class Change>
  int32_t by_parts(int32_t place, const Change& change) {
    if (made_.values[place].dtype == at::kDouble) return change(place);
    const int32_t real = change(scalar("real", {place})), imaginary = change(scalar("imag", {place}));
    return scalar("complex", {real, imaginary}, at::kComplexDouble);
  }

  int32_t noisy(int32_t place, int32_t value, double n = 1) {
    return by_parts(place, [&](int32_t part) {
      return scalar("mul", {part, scalar("add", {noise(value, n), number(1)})});
    });
  }

  // Off by what is rounded of the magnitudes of its terms.
  int32_t noisy_sum(int32_t place, int32_t value, detail::KernelReduce reduce, double n) {
    reduce.operand = scalar("abs", {reduce.operand});
    const int32_t terms = add(at::kDouble, reduce);
    const int32_t is_finite = scalar("is_finite", {terms}, at::kBool);
    return by_parts(place, [&](int32_t part) {
      const int32_t off = scalar("mul", {noise(value, n), terms});
      return scalar("select", {is_finite, scalar("add", {part, off}), part});
    });
  }

  static bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  }
  // Of what the library has formulas of its own for, the numbers near a root are as uncertain as the operand.
  static bool is_formula(std::string_view op) { return is_one_of(op, {"erfinv", "digamma", "lgamma"}); }

  int32_t add_noisy(int32_t value) {
    const detail::KernelValue& made = of_.values[value];
    return std::visit([&](const auto& way) { return add_noisy(value, wide(made.dtype), way); }, made.made_by);
  }
  int32_t add_noisy(int32_t, at::ScalarType dtype, const detail::KernelConstant& constant) {
    return add(dtype, constant);
  }
  int32_t add_noisy(int32_t, at::ScalarType dtype, const detail::KernelIndex& index) {
    return add(dtype, detail::KernelIndex{moved(index.map)});
  }
  int32_t add_noisy(int32_t, at::ScalarType dtype, detail::KernelLoad load) {
    load.map = moved(load.map);
    if (load.mask) load.mask = detail::LoadMask{places_[load.mask->condition], places_[load.mask->other]};
    return add(dtype, load);
  }
  int32_t add_noisy(int32_t value, at::ScalarType dtype, detail::KernelScalar scalar) {
    const bool is_exact =
        is_one_of(scalar.op->name, {"neg", "abs", "sign", "min", "max", "floor", "ceil", "trunc", "round", "copysign",
                                    "select", "real", "imag", "conj", "complex", "cast"});
    for (int32_t& operand : scalar.operands) {
      const int32_t original = operand;
      operand = places_[operand];
      if (is_formula(scalar.op->name)) operand = noisy(operand, original);
    }
    const int32_t place = add(dtype, scalar);
    const auto& operand = of_.values[std::get<detail::KernelScalar>(of_.values[value].made_by).operands.back()];
    const bool narrows =
        scalar.op->name == "cast" && c10::elementSize(operand.dtype) >= c10::elementSize(of_.values[value].dtype);
    return is_rounded(of_.values[value].dtype) && (!is_exact || narrows) ? noisy(place, value) : place;
  }
  int32_t add_noisy(int32_t value, at::ScalarType dtype, detail::KernelReduce reduce) {
    const std::string_view name = reduce.reduction->name;
    const int32_t original = std::exchange(reduce.operand, places_[reduce.operand]);
    const double n = std::sqrt(count(reduce.over));
    if (!is_rounded(of_.values[value].dtype) || is_one_of(name, {"min", "max"})) return add(dtype, reduce);
    if (is_one_of(name, {"sum", "mean"}) && is_rounded(of_.values[original].dtype)) {
      return noisy_sum(add(dtype, reduce), value, reduce, n);
    }
    // Deviations are from a mean that is rounded, and exponentials are of rounded differences.
    if (is_rounded(of_.values[original].dtype))
      reduce.operand = noisy(reduce.operand, original, name == "logsumexp" ? 1 : n);
    return noisy(add(dtype, reduce), value, n);
  }

  const detail::Kernel& of_;
  std::vector<detail::DimSet> domains_;
  detail::Kernel made_;
  std::vector<int32_t> places_;  // of the kernel's values among those that are made
  int64_t noises_ = 1;           // elements of each of the two inputs
};

/// What a kernel stores in float64, and how far rounding may carry it, element by element.
struct Rounding {
  Tensors exact, moved;

  Rounding(const detail::Kernel& kernel, const Tensors& inputs, const std::vector<int64_t>& output_counts) {
    constexpr uint64_t kDraws = 4;
    constexpr double kTimes = 4;  // of the farthest of them
    const NoisyKernel noisy(kernel);
    const auto run = [&](uint64_t draw) {
      Tensors found = noisy.run(inputs, output_counts, draw);
      for (at::Tensor& output : found) output = output.to(output.is_complex() ? at::kComplexDouble : at::kDouble);
      return found;
    };
    exact = run(0);
    for (const at::Tensor& output : exact) moved.push_back(at::zeros_like(at::real(output)));
    for (uint64_t draw = 1; draw <= kDraws; ++draw) {
      const Tensors found = run(draw);
      for (size_t i = 0; i < found.size(); ++i) moved[i] = at::maximum(moved[i], (found[i] - exact[i]).abs() * kTimes);
    }
  }
};

/// How far rounding may carry each element of result `index`. `results`: as the kernel stores them, densely; after
/// them it may store its check.
inline at::Tensor rounding_of(const detail::Kernel& kernel, const Tensors& inputs, const Tensors& results,
                              size_t index) {
  std::vector<int64_t> counts;
  for (const at::Tensor& result : results) counts.push_back(result.numel());
  counts.resize(kernel.outputs.size(), 1);
  const at::Tensor moved = Rounding(kernel, inputs, counts).moved[index];
  return moved.as_strided(results[index].sizes(), results[index].strides());
}

}  // namespace diptych::testing
