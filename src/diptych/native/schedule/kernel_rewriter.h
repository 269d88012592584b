// Making a kernel from another one, value by value.
#pragma once
#include <string_view>
#include <utility>
#include <vector>

#include "diptych/native/kernel/kernel.h"
#include "diptych/native/kernel/reduction.h"
#include "diptych/native/kernel/scalar_op.h"

namespace diptych::detail {

/// Copies a kernel value by value; who uses it may put several in the place of one.
class KernelRewriter {
 public:
  explicit KernelRewriter(const Kernel& source) : source_(source), domains_(value_domains(source)) {
    result_ = source;
    result_.values.clear();
  }

  const KernelReduce* reduce_at(size_t i) const { return std::get_if<KernelReduce>(&source_.values[i].made_by); }
  const Kernel& source() const { return source_; }
  DimSet domain(int32_t value) const { return domains_[value]; }
  int32_t operator[](int32_t old) const { return map_[old]; }

  int32_t add(at::ScalarType dtype, decltype(KernelValue::made_by) made_by) {
    result_.values.push_back({dtype, std::move(made_by)});
    return static_cast<int32_t>(result_.values.size()) - 1;
  }
  int32_t scalar(std::string_view op, at::ScalarType dtype, std::vector<int32_t> operands) {
    return add(dtype, KernelScalar{find_scalar_op(op), std::move(operands)});
  }
  int32_t reduce(std::string_view reduction, at::ScalarType dtype, int32_t operand, DimSet over) {
    return add(dtype, KernelReduce{find_reduction(reduction), operand, over});
  }
  int32_t constant(double number, at::ScalarType dtype) { return add(dtype, KernelConstant{{number}}); }

  /// Says which value stands for the next one of the source.
  void map_next(int32_t value) { map_.push_back(value); }
  void copy(size_t i) {
    KernelValue value = source_.values[i];
    if (auto* index = std::get_if<KernelIndex>(&value.made_by)) index->map = mapped(index->map);
    if (auto* load = std::get_if<KernelLoad>(&value.made_by)) {
      load->map = mapped(load->map);
      if (load->mask) load->mask = LoadMask{map_[load->mask->condition], map_[load->mask->other]};
    }
    if (auto* scalar = std::get_if<KernelScalar>(&value.made_by)) {
      for (int32_t& operand : scalar->operands) operand = map_[operand];
    }
    if (auto* reduce = std::get_if<KernelReduce>(&value.made_by)) reduce->operand = map_[reduce->operand];
    map_next(add(value.dtype, std::move(value.made_by)));
  }

  Kernel finish() {
    for (KernelStore& store : result_.stores) {
      store.map = mapped(store.map);
      store.value = map_[store.value];
    }
    return std::move(result_);
  }

 private:
  IndexMap mapped(const IndexMap& map) const {
    IndexMap result;
    for (IndexTerm term : map.terms()) {
      if (term.factor == IndexFactor::kValue) term.id = map_[term.id];
      result.add(term);
    }
    return result;
  }

  const Kernel& source_;
  std::vector<DimSet> domains_;
  Kernel result_;
  std::vector<int32_t> map_;
};

}  // namespace diptych::detail
