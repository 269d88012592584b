#include "diptych/native/codegen/complex_parts.h"

#include <fmt/format.h>
#include <algorithm>

#include "diptych/base/error.h"
#include "diptych/native/codegen/complex_formulas.h"
#include "diptych/native/kernel/reduction.h"
#include "diptych/native/kernel/scalar_op.h"

namespace diptych::detail {
namespace {

bool is_complex(at::ScalarType dtype) { return has_dtype(kComplexes, dtype); }

// Thrown where an operation has no formula.
struct NoFormula {
  std::string why;
};

class PartsWriter {
 public:
  explicit PartsWriter(const Kernel& kernel) : from_(kernel), to_(kernel) {}

  Kernel write() {
    for (const KernelValue& value : from_.values) {
      parts_.push_back(std::visit([&](const auto& made_by) { return write(value.dtype, made_by); }, value.made_by));
    }
    to_.stores.clear();
    for (const KernelStore& store : from_.stores) write_store(store);
    to_.values = builder_.values();
    remove_unused_values(to_);
    return std::move(to_);
  }

 private:
  Term term(int32_t value) { return {builder_, value}; }
  // Of a value that is real.
  int32_t one(int32_t value) const { return parts_[value][0].value(); }
  at::ScalarType dtype_of(int32_t value) const { return from_.values[value].dtype; }

  // The same elements, or with `scale` 2 their parts.
  IndexMap mapped(const IndexMap& map, int64_t scale = 1, int64_t offset = 0) const {
    IndexMap result;
    for (IndexTerm term : map.terms()) {
      term.coefficient.factor *= scale;
      if (term.factor == IndexFactor::kValue) term.id = one(term.id);
      result.add(term);
    }
    return result.add(offset_term({offset}));
  }

  NumberParts write(at::ScalarType dtype, const KernelConstant& constant) {
    const auto& number = constant.number.number;
    const auto make = [&](const at::Scalar& what) {
      return term(builder_.constant(what, c10::toRealValueType(dtype)));
    };
    if (const auto* integer = std::get_if<int64_t>(&number)) return {make(*integer)};
    if (const auto* real = std::get_if<double>(&number)) return {make(*real)};
    const auto complex = std::get<std::complex<double>>(number);
    return {make(complex.real()), make(complex.imag())};
  }

  NumberParts write(at::ScalarType, const KernelIndex& index) { return {term(builder_.index(mapped(index.map)))}; }

  NumberParts write(at::ScalarType dtype, const KernelLoad& load) {
    const auto part = [&](int64_t scale, int64_t offset) {
      std::optional<LoadMask> mask;
      if (load.mask) mask = LoadMask{one(load.mask->condition), parts_[load.mask->other][offset].value()};
      const IndexMap map = mapped(load.map, scale, offset);
      return term(builder_.load(load.input, c10::toRealValueType(dtype), map, mask));
    };
    if (!is_complex(dtype)) return {part(1, 0)};
    return {part(2, 0), part(2, 1)};
  }

  NumberParts write(at::ScalarType dtype, const KernelScalar& scalar) {
    const at::ScalarType from = dtype_of(scalar.operands.back());
    if (scalar.op->result == ResultRule::kAny) return cast(parts_[scalar.operands[0]], from, dtype);
    std::vector<NumberParts> operands;
    for (const int32_t operand : scalar.operands) operands.push_back(parts_[operand]);
    if (is_complex(from) || is_complex(dtype)) {
      const ComplexFormula* formula = find_complex_formula(scalar.op->name);
      if (formula == nullptr)
        throw NoFormula{fmt::format("the operation {} on {}", scalar.op->name, dtype_names(dtype_bit(from)))};
      return formula->write(operands);
    }
    std::vector<int32_t> values;
    for (const NumberParts& operand : operands) values.push_back(operand[0].value());
    return {term(builder_.scalar(scalar.op->name, std::move(values)))};
  }

  static NumberParts cast(const NumberParts& x, at::ScalarType from, at::ScalarType to) {
    const at::ScalarType part = c10::toRealValueType(to);
    if (is_complex(to)) return {x[0].to(part), is_complex(from) ? x[1].to(part) : x[0].to(part).like(0)};
    if (is_complex(from) && to == at::kBool) return {x[0].to(to) | x[1].to(to)};
    return {x[0].to(to)};
  }

  NumberParts write(at::ScalarType dtype, const KernelReduce& reduce) {
    const auto& name = reduce.reduction->name;
    if (!is_complex(dtype) && !is_complex(dtype_of(reduce.operand)))
      return {term(builder_.reduce(name, one(reduce.operand), reduce.over, dtype))};
    if (name != "sum") throw NoFormula{fmt::format("the reduction {} of complex numbers", name)};
    const at::ScalarType part = c10::toRealValueType(dtype);
    NumberParts sums;
    for (const Term& operand : cast(parts_[reduce.operand], dtype_of(reduce.operand), dtype)) {
      sums.push_back(term(builder_.reduce(name, operand.value(), reduce.over, part)));
    }
    return sums;
  }

  void write_store(const KernelStore& store) {
    const NumberParts& parts = parts_[store.value];
    const auto scale = static_cast<int64_t>(parts.size());
    for (int64_t i = 0; i < scale; ++i) {
      to_.stores.push_back({store.output, mapped(store.map, scale, i), parts[i].value(), store.is_add});
    }
  }

  const Kernel& from_;
  Kernel to_;
  KernelBuilder builder_;
  std::vector<NumberParts> parts_;  // by value
};

}  // namespace

std::optional<Kernel> with_complex_parts(const Kernel& kernel, std::string& why) {
  const auto has_parts = [](const KernelValue& value) { return is_complex(value.dtype); };
  if (std::ranges::none_of(kernel.values, has_parts)) return kernel;
  try {
    return PartsWriter(kernel).write();
  } catch (const NoFormula& none) {
    why = none.why;
    return std::nullopt;
  }
}

std::vector<int32_t> stored_pairs(const Schedule& s) {
  const auto& stores = s.kernel.stores;
  std::vector<int32_t> pairs(stores.size(), kAlone);
  for (size_t i = 0; i + 1 < stores.size(); ++i) {
    const KernelStore &first = stores[i], &second = stores[i + 1];
    IndexMap other = first.map;
    const bool is_pair = is_complex(s.kernel.outputs[first.output]) && first.output == second.output &&
                         part_of(first.map) == 0 && other.add(offset_term({1})) == second.map;
    const bool is_together = s.pass[first.value] == s.pass[second.value] &&
                             s.is_final[first.value] == s.is_final[second.value] &&
                             store_domain(first, s.domains) == store_domain(second, s.domains);
    if (!is_pair || !is_together || first.is_add || second.is_add) continue;
    pairs[i] = pairs[i + 1] = static_cast<int32_t>(i + 1);
  }
  return pairs;
}

int64_t part_of(const IndexMap& map) {
  int64_t offset = 0;
  for (const IndexTerm& term : map.terms()) {
    if (term.factor == IndexFactor::kOne && term.coefficient.is_constant()) offset += term.coefficient.factor;
  }
  return offset & 1;
}

}  // namespace diptych::detail
