// Random kernels of the kind that code is made of: values over rows and elements, reductions within rows and over them.
#pragma once
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "diptych/native/kernel/kernel.h"
#include "diptych/native/kernel/reduction.h"
#include "diptych/native/kernel/scalar_op.h"
#include "testing/tensors.h"

namespace diptych::testing {

/// Makes a kernel with buffers that fit it. Floats stay small, so that the reference is near whatever the order of
/// sums.
class RandomRowKernel {
 public:
  explicit RandomRowKernel(uint32_t seed) : random_(seed) {}

  detail::Kernel kernel;
  Tensors inputs;
  std::vector<int64_t> output_counts;

  void make() {
    kernel.name = "random";
    const int outer = below(3), inner = below(3);
    for (int i = 0; i < outer + inner; ++i) kernel.extents.push_back({extent()});
    for (int d = outer; d < outer + inner; ++d) row_ = row_ | detail::DimSet::of(d);
    dtype_ = below(4) == 0 ? at::kDouble : at::kFloat;
    for (int i = 1 + below(3); i > 0; --i) add_load();
    for (int i = 2 + below(8); i > 0; --i) add_value();
    if (!row_.empty() && below(3) > 0) add_reduction(row_);
    for (int i = below(8); i > 0; --i) add_value();
    if (!row_.empty() && below(3) == 0) add_reduction(row_);
    for (int i = below(5); i > 0; --i) add_value();
    add_outputs();
  }

 private:
  int below(int count) { return static_cast<int>(random_() % static_cast<uint32_t>(count)); }
  int64_t extent() {
    constexpr int64_t kExtents[] = {1, 2, 3, 5, 8, 16, 17, 32, 33, 40, 70};
    return kExtents[below(11)];
  }
  size_t rank() const { return kernel.extents.size(); }
  detail::DimSet all() const { return {(uint64_t{1} << rank()) - 1}; }

  // A dense map over some dims in a random order; returns the number of elements.
  int64_t dense(detail::IndexMap& map, detail::DimSet dims) {
    std::vector<int32_t> order;
    for (size_t d = 0; d < rank(); ++d) {
      if (dims.contains(static_cast<int32_t>(d))) order.push_back(static_cast<int32_t>(d));
    }
    if (below(3) == 0) std::shuffle(order.begin(), order.end(), random_);
    int64_t count = 1;
    for (size_t i = order.size(); i-- > 0;) {
      map.add(detail::dim_term({count}, order[i]));
      count *= kernel.extents[order[i]].factor;
    }
    return count;
  }

  int32_t add(at::ScalarType dtype, decltype(detail::KernelValue::made_by) made_by) {
    kernel.values.push_back({dtype, std::move(made_by)});
    return static_cast<int32_t>(kernel.values.size()) - 1;
  }
  int32_t scalar(std::string_view op, at::ScalarType dtype, std::vector<int32_t> operands) {
    return add(dtype, detail::KernelScalar{detail::find_scalar_op(op), std::move(operands)});
  }

  void add_load() {
    const detail::DimSet dims = below(2) == 0 ? all() : detail::DimSet{random_()} & all();
    detail::KernelLoad load{static_cast<int32_t>(inputs.size()), {}, {}};
    const int64_t count = dense(load.map, dims);
    const int kind = below(6);
    const auto stored = kind == 0 ? at::kBool : kind == 1 ? at::kBFloat16 : kind == 2 ? at::kHalf : dtype_;
    inputs.push_back(stored == at::kBool ? at::randint(2, {count}).to(at::kBool) : at::randn({count}).to(stored));
    kernel.inputs.push_back(stored);
    int32_t value = add(stored, load);
    if (stored != dtype_) value = scalar("cast", dtype_, {value});
    numbers_.push_back(value);
  }

  int32_t number() { return numbers_[random_() % numbers_.size()]; }

  void add_value() {
    constexpr std::string_view kUnary[] = {"neg", "abs", "exp", "tanh", "sin", "sqrt", "floor", "erf", "sign", "log1p"};
    constexpr std::string_view kBinary[] = {"add", "sub", "mul", "min", "max", "atan2", "copysign"};
    constexpr std::string_view kComparisons[] = {"lt", "ge", "eq", "ne"};
    const int kind = below(10);
    if (kind == 0) {
      numbers_.push_back(add(dtype_, detail::KernelConstant{{(below(9) - 4) / 2.0}}));
    } else if (kind == 1) {
      const int32_t flag = scalar(kComparisons[below(4)], at::kBool, {number(), number()});
      numbers_.push_back(scalar("select", dtype_, {flag, number(), number()}));
    } else if (kind == 2 && rank() > 0) {
      detail::IndexMap map;
      dense(map, detail::DimSet{random_()} & all());
      map.add(detail::offset_term({below(5) - 2}));
      numbers_.push_back(scalar("cast", dtype_, {add(at::kLong, detail::KernelIndex{map})}));
      // Indices are large beside the rest, which then drowns in the tolerance.
      numbers_.back() = scalar("sin", dtype_, {numbers_.back()});
    } else if (kind < 6) {
      // What exp makes of large numbers is no use to the comparison.
      const int32_t small = scalar("tanh", dtype_, {number()});
      numbers_.push_back(scalar(kUnary[below(10)], dtype_, {small}));
    } else {
      numbers_.push_back(scalar(kBinary[below(7)], dtype_, {number(), number()}));
    }
  }

  void add_reduction(detail::DimSet over) {
    constexpr std::string_view kNames[] = {"sum",       "max",    "min",   "mean", "squared_deviations",
                                           "logsumexp", "argmax", "argmin"};
    const auto* reduction = detail::find_reduction(kNames[below(8)]);
    const int32_t operand = scalar("tanh", dtype_, {number()});
    if (reduction->result == detail::ReductionResult::kPosition) {
      const int32_t position = add(at::kLong, detail::KernelReduce{reduction, operand, over});
      numbers_.push_back(scalar("sin", dtype_, {scalar("cast", dtype_, {position})}));
    } else {
      numbers_.push_back(add(dtype_, detail::KernelReduce{reduction, operand, over}));
    }
  }

  void store(int32_t value, detail::DimSet dims) {
    detail::KernelStore store{static_cast<int32_t>(kernel.outputs.size()), {}, value, false};
    output_counts.push_back(dense(store.map, dims));
    kernel.outputs.push_back(kernel.values[value].dtype);
    kernel.stores.push_back(store);
  }

  void add_outputs() {
    const detail::DimSet outer = all().without(row_);
    const auto domains = detail::value_domains(kernel);
    for (int i = 1 + below(2); i > 0; --i) {
      const int32_t value = number();
      store(value, outer | domains[value]);
    }
    if (!outer.empty() && below(2) == 0) add_final(outer);
  }

  // A sum over all rows, of elements or of whole rows, with something made of it.
  void add_final(detail::DimSet outer) {
    const int32_t operand = scalar("tanh", dtype_, {number()});
    const auto* reduction = detail::find_reduction(below(3) == 0 ? "max" : "sum");
    const detail::DimSet over = below(2) == 0 || row_.empty() ? all() : outer;
    const int32_t sum = add(dtype_, detail::KernelReduce{reduction, operand, over});
    const int32_t half = add(dtype_, detail::KernelConstant{{0.5}});
    const int32_t result = below(2) == 0 ? sum : scalar("mul", dtype_, {sum, half});
    store(result, detail::value_domains(kernel)[result]);
  }

  std::mt19937 random_;
  at::ScalarType dtype_ = at::kFloat;
  detail::DimSet row_;
  std::vector<int32_t> numbers_;
};

}  // namespace diptych::testing
