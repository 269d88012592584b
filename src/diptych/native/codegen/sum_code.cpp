#include "diptych/native/codegen/sum_code.h"

#include <limits>

#include "diptych/native/codegen/folds.h"
#include "diptych/native/kernel/reduction.h"
#include "diptych/native/scalar/casts.h"

namespace diptych::detail {
namespace {

bool is_position(const Reduction& reduction) { return reduction.result == ReductionResult::kPosition; }

}  // namespace

const KernelReduce& SumCode::reduce_of(int32_t value) const {
  return std::get<KernelReduce>(s_.kernel.values[value].made_by);
}

// Positions are found by comparing elements; all other reductions fold in the dtype of their result.
at::ScalarType SumCode::folded_dtype(int32_t value) const {
  const KernelReduce& reduce = reduce_of(value);
  return s_.kernel.values[is_position(*reduce.reduction) ? reduce.operand : value].dtype;
}

std::string SumCode::first(int32_t value, int lanes) {
  const at::ScalarType dtype = folded_dtype(value);
  const std::string scalar = first_of(*reduce_of(value).reduction, dtype);
  return lanes == 0 ? scalar : writer_.splat(llvm_type(dtype, 0), scalar, lanes);
}

Sum SumCode::begin(int32_t reduction, int lanes, bool is_long) {
  const KernelReduce& reduce = reduce_of(reduction);
  Sum sum{reduction, 0, "", "", ""};
  const bool is_vector = s_.is_vector_in_row || (point_.is_vector() && s_.varies_along(reduce.operand, s_.vector_dim));
  sum.lanes = is_vector ? lanes : 0;
  const at::ScalarType dtype = folded_dtype(reduction);
  const std::string type = llvm_type(dtype, sum.lanes);
  const auto variable = [&](const std::string& of, const std::string& what) {
    std::string name = writer_.variable(of);
    writer_.line("store {} {}, ptr {}", of, what, name);
    return name;
  };
  sum.variable = variable(type, first(reduction, sum.lanes));
  if (is_position(*reduce.reduction)) {
    // Beyond every position: an element that is no better than the first value still wins.
    const std::string last = std::to_string(std::numeric_limits<int64_t>::max());
    const std::string positions = llvm_type("i64", sum.lanes);
    sum.position = variable(positions, sum.lanes == 0 ? last : writer_.splat("i64", last, sum.lanes));
  } else if (is_long && reduce.reduction->name == "sum" && has_dtype(kFloats, dtype)) {
    sum.total = variable(type, first(reduction, sum.lanes));
  }
  return sum;
}

void SumCode::add(Sum& sum) {
  const KernelReduce& reduce = reduce_of(sum.value);
  const at::ScalarType from = s_.kernel.values[reduce.operand].dtype, dtype = folded_dtype(sum.value);
  const Code code = point_.value(reduce.operand);
  std::string element = sum.lanes == 0 ? code.name : point_.widened(code, from);
  element = write_cast(writer_, from, dtype, element, sum.lanes);
  const std::string type = llvm_type(dtype, sum.lanes);
  if (is_position(*reduce.reduction)) return add_position(sum, element);
  const bool has_idle_lanes = sum.lanes > 0 && !point_.mask().empty();
  if (has_idle_lanes) {
    element = writer_.value("select <{} x i1> {}, {} {}, {} {}", sum.lanes, point_.mask(), type, element, type,
                            first(sum.value, sum.lanes));
  }
  const std::string so_far = writer_.value("load {}, ptr {}", type, sum.variable);
  const std::string folded = write_fold(writer_, *reduce.reduction, dtype, so_far, element, sum.lanes);
  writer_.line("store {} {}, ptr {}", type, folded, sum.variable);
}

// The number of the point in the row, as reductions count: in the order of the kernel's dims.
std::string SumCode::position() {
  PointCode::LinearTerms terms;
  SizeProduct stride, vector_stride = 0;
  for (auto dim = static_cast<int32_t>(s_.kernel.extents.size()); dim-- > 0;) {
    if (!s_.row.contains(dim)) continue;
    terms.emplace_back(point_.index(dim), stride);
    if (dim == s_.vector_dim) vector_stride = stride;
    stride = stride * s_.extent(dim);
  }
  const std::string first = point_.linear(terms);
  if (!point_.is_vector()) return first;
  const std::string type = llvm_type("i64", point_.lanes());
  const std::string strides = writer_.splat("i64", point_.size(vector_stride), point_.lanes());
  const std::string offsets =
      writer_.value("mul {} {}, {}", type, LlvmWriter::lane_numbers("i64", point_.lanes()), strides);
  return writer_.value("add {} {}, {}", type, writer_.splat("i64", first, point_.lanes()), offsets);
}

void SumCode::add_position(Sum& sum, const std::string& element) {
  const at::ScalarType dtype = folded_dtype(sum.value);
  const std::string type = llvm_type(dtype, sum.lanes), positions = llvm_type("i64", sum.lanes);
  const Extreme so_far{writer_.value("load {}, ptr {}", type, sum.variable),
                       writer_.value("load {}, ptr {}", positions, sum.position)};
  std::string here = position();
  if (sum.lanes == 0 && point_.is_vector()) {
    here = writer_.value("extractelement {} {}, i64 0", llvm_type("i64", point_.lanes()), here);
  }
  Extreme next =
      write_more_extreme(writer_, *reduce_of(sum.value).reduction, dtype, so_far, {element, here}, sum.lanes);
  if (sum.lanes > 0 && !point_.mask().empty()) {
    const auto choose = [&](const std::string& of, const std::string& yes, const std::string& no) {
      return writer_.value("select <{} x i1> {}, {} {}, {} {}", sum.lanes, point_.mask(), of, yes, of, no);
    };
    next = {choose(type, next.element, so_far.element), choose(positions, next.position, so_far.position)};
  }
  writer_.line("store {} {}, ptr {}", type, next.element, sum.variable);
  writer_.line("store {} {}, ptr {}", positions, next.position, sum.position);
}

void SumCode::move_to_total(const Sum& sum) {
  if (sum.total.empty()) return;
  const at::ScalarType dtype = folded_dtype(sum.value);
  const std::string type = llvm_type(dtype, sum.lanes);
  const std::string total = writer_.value("load {}, ptr {}", type, sum.total);
  const std::string part = writer_.value("load {}, ptr {}", type, sum.variable);
  const std::string folded = write_fold(writer_, *reduce_of(sum.value).reduction, dtype, total, part, sum.lanes);
  writer_.line("store {} {}, ptr {}", type, folded, sum.total);
  writer_.line("store {} {}, ptr {}", type, first(sum.value, sum.lanes), sum.variable);
}

Code SumCode::finish(const Sum& sum) {
  const Reduction& reduction = *reduce_of(sum.value).reduction;
  const at::ScalarType dtype = folded_dtype(sum.value);
  const bool folds_lanes = sum.lanes > 0 && !point_.is_vector();
  if (is_position(reduction)) {
    Extreme best{writer_.value("load {}, ptr {}", llvm_type(dtype, sum.lanes), sum.variable),
                 writer_.value("load {}, ptr {}", llvm_type("i64", sum.lanes), sum.position)};
    if (!folds_lanes) return {best.position, sum.lanes};
    const std::string element = llvm_type(dtype, 0);
    for (int left = sum.lanes; left > 1; left /= 2) {
      const auto half = [&](int first) {
        return Extreme{writer_.lanes_of(element, best.element, left, first, left / 2),
                       writer_.lanes_of("i64", best.position, left, first, left / 2)};
      };
      const Extreme low = half(0), high = half(left / 2);
      best = write_more_extreme(writer_, reduction, dtype, low, high, left / 2);
    }
    return {writer_.value("extractelement <1 x i64> {}, i64 0", best.position), 0};
  }
  const std::string& from = sum.total.empty() ? sum.variable : sum.total;
  const std::string folded = writer_.value("load {}, ptr {}", llvm_type(dtype, sum.lanes), from);
  if (!folds_lanes) return {folded, sum.lanes};
  return {write_fold_of_lanes(writer_, reduction, dtype, folded, sum.lanes), 0};
}

}  // namespace diptych::detail
