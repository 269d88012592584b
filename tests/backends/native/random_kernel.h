// Random kernels that verify.
#pragma once
#include <cfloat>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "diptych/native/kernel/kernel.h"
#include "diptych/native/kernel/reduction.h"
#include "diptych/native/kernel/scalar_op.h"

namespace diptych::testing {

class RandomKernel {
 public:
  explicit RandomKernel(uint32_t seed) : random_(seed) {}

  detail::Kernel make() {
    kernel_ = {};
    kernel_.name = below(2) == 0 ? "kernel_name" : "f.2";
    for (int i = below(4); i >= 0; --i) kernel_.extents.push_back(size(/*least=*/2));
    for (int i = below(3); i > 0; --i) kernel_.hints.push_back(below(10'000));
    for (int i = below(3); i >= 0; --i) kernel_.inputs.push_back(dtype(detail::kStored));
    for (int i = 4 + below(20); i > 0; --i) kernel_.values.push_back(value());
    for (int i = below(3); i >= 0; --i) add_store();
    return kernel_;
  }

 private:
  int below(int count) { return static_cast<int>(random_() % static_cast<uint32_t>(count)); }

  at::ScalarType dtype(detail::DtypeSet set) {
    while (true) {
      const auto dtype = static_cast<at::ScalarType>(below(16));
      if (detail::has_dtype(set, dtype)) return dtype;
    }
  }

  detail::SizeTerm size(int least) {
    const int64_t factor = below(8) == 0 ? 1'000'000'007 : least + below(9);
    return below(2) == 0 ? detail::SizeTerm{factor} : detail::SizeTerm{factor, below(6)};
  }

  // A value of one of these dtypes; -1 if there is none.
  int32_t operand(detail::DtypeSet set) {
    std::vector<int32_t> all;
    for (size_t i = 0; i < kernel_.values.size(); ++i) {
      if (detail::has_dtype(set, kernel_.values[i].dtype)) all.push_back(static_cast<int32_t>(i));
    }
    return all.empty() ? -1 : all[random_() % all.size()];
  }

  detail::IndexMap map() {
    detail::IndexMap map;
    for (int i = below(4); i > 0; --i) {
      auto coefficient = size(/*least=*/1);
      if (below(3) == 0) coefficient.factor = -coefficient.factor;
      const int32_t value = operand(detail::dtype_bit(at::kLong));
      const int kind = below(value < 0 ? 4 : 5);
      map.add(kind == 0   ? detail::offset_term(coefficient)
              : kind == 4 ? detail::value_term(coefficient, value)
                          : detail::dim_term(coefficient, below(static_cast<int>(kernel_.extents.size()))));
    }
    return map;
  }

  double number(bool is_single) {
    constexpr double kSpecial[] = {0.0, -0.0, 1, -1.5, 1e30, 1e-40, INFINITY, -INFINITY, NAN, FLT_MAX, FLT_TRUE_MIN};
    const int choice = below(16);
    const double number =
        choice < 11 ? kSpecial[choice] : std::ldexp(static_cast<double>(random_()), below(80) - 60) / 3;
    return is_single ? static_cast<double>(static_cast<float>(number)) : number;
  }

  detail::KernelNumber constant(at::ScalarType dtype) {
    if (dtype == at::kBool) return {int64_t{below(2)}};
    if (dtype == at::kByte) return {int64_t{below(256)}};
    if (dtype == at::kLong) return {below(2) == 0 ? std::numeric_limits<int64_t>::min() : int64_t{below(99)}};
    if (detail::has_dtype(detail::kIntegers, dtype)) return {int64_t{below(256)} - 128};
    const bool is_single = dtype == at::kFloat || dtype == at::kComplexFloat;
    if (detail::has_dtype(detail::kFloats, dtype)) return {number(is_single)};
    return {std::complex<double>(number(is_single), number(is_single))};
  }

  detail::KernelLoad load(at::ScalarType& dtype) {
    detail::KernelLoad load{below(static_cast<int>(kernel_.inputs.size())), map(), {}};
    dtype = kernel_.inputs[load.input];
    const int32_t condition = operand(detail::kBools), other = operand(detail::dtype_bit(dtype));
    if (condition >= 0 && other >= 0) load.mask = detail::LoadMask{condition, other};
    return load;
  }

  detail::KernelValue value() {
    const int kind = below(8);
    detail::KernelValue value;
    if (kind == 0) {
      value.dtype = dtype(detail::kComputed);
      value.made_by = detail::KernelConstant{constant(value.dtype)};
    } else if (kind == 1) {
      value = {at::kLong, detail::KernelIndex{map()}};
    } else if (kind == 2 || !make_of_operands(value, kind)) {
      value.made_by = load(value.dtype);
    }
    return value;
  }

  bool make_of_operands(detail::KernelValue& value, int kind) {
    return kind == 3 ? make_reduction(value) : make_scalar(value);
  }

  bool make_reduction(detail::KernelValue& value) {
    const auto& reduction = detail::reductions()[random_() % detail::reductions().size()];
    detail::KernelReduce reduce{&reduction, operand(reduction.operands), {}};
    if (reduce.operand < 0) return false;
    reduce.over = detail::DimSet::of(below(static_cast<int>(kernel_.extents.size()))) |
                  detail::DimSet::of(below(static_cast<int>(kernel_.extents.size())));
    const auto dtype = kernel_.values[reduce.operand].dtype;
    const auto sum = dtype == at::kBool ? at::kLong : dtype;
    value.dtype = reduction.result == detail::ReductionResult::kPosition ? at::kLong
                  : reduction.result == detail::ReductionResult::kWider  ? sum
                                                                         : dtype;
    value.made_by = reduce;
    return true;
  }

  bool make_scalar(detail::KernelValue& value) {
    const auto& op = detail::scalar_ops()[random_() % detail::scalar_ops().size()];
    detail::KernelScalar scalar{&op, {}};
    const int32_t first = operand(op.operands), condition = operand(detail::kBools);
    if (first < 0 || (op.has_condition && condition < 0)) return false;
    const auto of = kernel_.values[first].dtype;
    for (int i = 0; i < op.arity; ++i)
      scalar.operands.push_back(op.has_condition && i == 0 ? condition : operand(detail::dtype_bit(of)));
    const auto result = detail::result_dtype(op.result, of);
    value = {result ? *result : dtype(detail::kStored), scalar};
    return true;
  }

  // A store in which each dim has a symbol for its coefficient, so that none is known to meet itself.
  void add_store() {
    const int32_t value = operand(detail::kStored);
    const auto dtype = kernel_.values[value].dtype;
    detail::KernelStore store{static_cast<int32_t>(kernel_.outputs.size()), {}, value, false};
    for (size_t dim = 0; dim < kernel_.extents.size(); ++dim)
      store.map.add(detail::dim_term({1 + below(3), below(6)}, static_cast<int32_t>(dim)));
    kernel_.outputs.push_back(dtype);
    kernel_.stores.push_back(store);
    if (dtype == at::kBool || below(2) == 0) return;
    store.is_add = true;
    store.map = map();
    kernel_.stores.push_back(store);
  }

  std::mt19937 random_;
  detail::Kernel kernel_;
};

}  // namespace diptych::testing
