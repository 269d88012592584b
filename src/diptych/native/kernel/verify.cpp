#include "diptych/native/kernel/verify.h"

#include <fmt/format.h>
#include <bit>
#include <cmath>
#include <limits>

#include "diptych/graph/tensor_meta.h"
#include "diptych/native/kernel/print.h"
#include "diptych/native/kernel/reduction.h"
#include "diptych/native/kernel/scalar_op.h"
#include "diptych/native/kernel/store_overlap.h"

namespace diptych::detail {
namespace {

// What is wrong with a part; empty if nothing is.
using Fault = std::string;

std::string shown(at::ScalarType dtype) {
  const auto name = find_dtype_name(dtype);
  return name.empty() ? c10::toString(dtype) : std::string(name);
}

std::string halves_remark(at::ScalarType dtype) {
  return has_dtype(kHalves, dtype) ? "; f16 and bf16 are loaded, stored and cast only: cast to f32 first" : "";
}

bool holds_float(double number, at::ScalarType dtype) {
  const bool is_single = dtype == at::kFloat || dtype == at::kComplexFloat;
  // What lies beyond the largest float has no float at all, so its conversion is not even asked for.
  const bool is_inside = !std::isfinite(number) || std::abs(number) <= std::numeric_limits<float>::max();
  return !is_single || std::isnan(number) || (is_inside && static_cast<float>(number) == number);
}

bool holds_integer(int64_t number, at::ScalarType dtype) {
  bool holds = false;
  with_element_type<kBools | kIntegers>(dtype, [&]<class T>(std::type_identity<T>) {
    holds = number >= static_cast<int64_t>(std::numeric_limits<T>::min()) &&
            number <= static_cast<int64_t>(std::numeric_limits<T>::max());
  });
  return holds;
}

class KernelChecker {
 public:
  explicit KernelChecker(const Kernel& kernel) : kernel_(kernel) {}

  std::optional<KernelProblem> run() {
    if (auto fault = header_fault(); !fault.empty())
      return KernelProblem{std::nullopt, fmt::format("kernel '{}': {}", kernel_.name, fault)};
    for (known_ = 0; known_ < kernel_.values.size(); ++known_) {
      const KernelValue& value = kernel_.values[known_];
      const auto fault = std::visit([&](const auto& way) { return value_fault(value, way); }, value.made_by);
      if (!fault.empty()) return at_line(known_, fault);
    }
    domains_ = value_domains(kernel_);
    for (size_t i = 0; i < kernel_.stores.size(); ++i) {
      if (auto fault = store_fault(kernel_.stores[i]); !fault.empty()) return at_line(known_ + i, fault);
    }
    return unstored_output();
  }

 private:
  KernelProblem at_line(size_t line, const Fault& fault) const {
    return {line, fmt::format("'{}': {}", line_text(kernel_, line), fault)};
  }

  Fault header_fault() const {
    if (!is_name(kernel_.name)) return "the name has to be letters, digits, '_' and '.', with a letter first";
    if (kernel_.extents.size() > static_cast<size_t>(kMaxDims))
      return fmt::format("it has {} dims, expected at most {}", kernel_.extents.size(), kMaxDims);
    for (size_t i = 0; i < kernel_.extents.size(); ++i) {
      const SizeTerm& extent = kernel_.extents[i];
      if (extent.factor < (extent.is_constant() ? 0 : 1))
        return fmt::format("the extent of d{} is {}, expected no negative number", i, size_text(extent));
      if (auto fault = symbol_fault(extent); !fault.empty()) return fmt::format("the extent of d{}: {}", i, fault);
    }
    for (size_t i = 0; i < kernel_.hints.size(); ++i) {
      if (kernel_.hints[i] < 0)
        return fmt::format("the hint of s{} is {}, expected no negative number", i, kernel_.hints[i]);
    }
    if (kernel_.outputs.empty()) return "it has no output; declare one, as in y0 : f32";
    return buffers_fault('x', kernel_.inputs) + buffers_fault('y', kernel_.outputs);
  }

  static bool is_name(const std::string& name) {
    const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
    if (name.empty() || !is_letter(name[0])) return false;
    for (const char c : name) {
      if (!is_letter(c) && !(c >= '0' && c <= '9') && c != '.') return false;
    }
    return true;
  }

  static Fault buffers_fault(char letter, const std::vector<at::ScalarType>& buffers) {
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (!has_dtype(kStored, buffers[i]))
        return fmt::format("{}{} is {}, expected one of {}", letter, i, shown(buffers[i]), dtype_names(kStored));
    }
    return {};
  }

  static Fault symbol_fault(const SizeTerm& size) {
    if (size.symbol >= SizeTerm::kNoSymbol && size.symbol < kMaxSymbols) return {};
    return fmt::format("got the symbol s{}, expected one from s0 to s{}", size.symbol, kMaxSymbols - 1);
  }

  Fault operand_fault(int32_t value) const {
    if (value >= 0 && static_cast<size_t>(value) < known_) return {};
    return fmt::format("%{} is not defined by a line above", value);
  }

  Fault dim_fault(int32_t dim) const {
    if (dim >= 0 && static_cast<size_t>(dim) < kernel_.extents.size()) return {};
    return fmt::format("got d{}, but the kernel has {} dims", dim, kernel_.extents.size());
  }

  Fault term_fault(const IndexTerm& term) const {
    if (auto fault = symbol_fault(term.coefficient); !fault.empty()) return fault;
    if (term.factor == IndexFactor::kDim) return dim_fault(term.id);
    if (term.factor == IndexFactor::kOne) return {};
    if (auto fault = operand_fault(term.id); !fault.empty()) return fault;
    return dtype_fault("the index", term.id, at::kLong);
  }

  Fault map_fault(const IndexMap& map) const {
    for (const IndexTerm& term : map.terms()) {
      if (auto fault = term_fault(term); !fault.empty()) return fault;
    }
    return {};
  }

  Fault dtype_fault(std::string_view what, int32_t value, at::ScalarType expected) const {
    const auto got = kernel_.values[value].dtype;
    if (got == expected) return {};
    return fmt::format("{} %{} is {}, expected {}; add a cast", what, value, shown(got), shown(expected));
  }

  Fault result_fault(at::ScalarType got, at::ScalarType expected) const {
    return got == expected ? "" : fmt::format("the result is {}, expected {}", shown(got), shown(expected));
  }

  Fault value_fault(const KernelValue& value, const KernelConstant& constant) const {
    if (!has_dtype(kComputed, value.dtype)) {
      return fmt::format("a constant is one of {}, got {}{}", dtype_names(kComputed), shown(value.dtype),
                         halves_remark(value.dtype));
    }
    bool fits = false;
    if (const auto* integer = std::get_if<int64_t>(&constant.number.number)) {
      fits = has_dtype(kBools | kIntegers, value.dtype) && holds_integer(*integer, value.dtype);
    } else if (const auto* real = std::get_if<double>(&constant.number.number)) {
      fits = has_dtype(kFloats, value.dtype) && holds_float(*real, value.dtype);
    } else {
      const auto complex = std::get<std::complex<double>>(constant.number.number);
      fits = has_dtype(kComplexes, value.dtype) && holds_float(complex.real(), value.dtype) &&
             holds_float(complex.imag(), value.dtype);
    }
    return fits ? "" : fmt::format("{} does not hold this number exactly; round it first", shown(value.dtype));
  }

  Fault value_fault(const KernelValue& value, const KernelIndex& index) const {
    if (auto fault = map_fault(index.map); !fault.empty()) return fault;
    return result_fault(value.dtype, at::kLong);
  }

  Fault value_fault(const KernelValue& value, const KernelLoad& load) const {
    if (load.input < 0 || static_cast<size_t>(load.input) >= kernel_.inputs.size())
      return fmt::format("got x{}, but the kernel has {} inputs", load.input, kernel_.inputs.size());
    if (value.dtype != kernel_.inputs[load.input]) {
      return fmt::format("the result is {}, but x{} is {}; load that and add a cast", shown(value.dtype), load.input,
                         shown(kernel_.inputs[load.input]));
    }
    if (auto fault = map_fault(load.map); !fault.empty() || !load.mask) return fault;
    for (const int32_t operand : {load.mask->condition, load.mask->other}) {
      if (auto fault = operand_fault(operand); !fault.empty()) return fault;
    }
    auto fault = dtype_fault("the condition", load.mask->condition, at::kBool);
    return fault.empty() ? dtype_fault("the other value", load.mask->other, value.dtype) : fault;
  }

  Fault value_fault(const KernelValue& value, const KernelScalar& scalar) const {
    if (!scalar.op) return "it has no operation";
    const ScalarOp& op = *scalar.op;
    if (static_cast<int>(scalar.operands.size()) != op.arity)
      return fmt::format("{} takes {} operands, got {}", op.name, op.arity, scalar.operands.size());
    for (const int32_t operand : scalar.operands) {
      if (auto fault = operand_fault(operand); !fault.empty()) return fault;
    }
    const size_t first = op.has_condition ? 1 : 0;
    if (op.has_condition) {
      if (auto fault = dtype_fault("the condition", scalar.operands[0], at::kBool); !fault.empty()) return fault;
    }
    const auto dtype = kernel_.values[scalar.operands[first]].dtype;
    if (auto fault = taken_fault(op.name, op.operands, dtype); !fault.empty()) return fault;
    for (size_t i = first + 1; i < scalar.operands.size(); ++i) {
      if (auto fault = dtype_fault("the operand", scalar.operands[i], dtype); !fault.empty()) return fault;
    }
    const auto expected = result_dtype(op.result, dtype);
    if (expected) return result_fault(value.dtype, *expected);
    return has_dtype(kStored, value.dtype)
               ? ""
               : fmt::format("the result is {}, expected one of {}", shown(value.dtype), dtype_names(kStored));
  }

  static Fault taken_fault(std::string_view name, DtypeSet taken, at::ScalarType dtype) {
    if (has_dtype(taken, dtype)) return {};
    return fmt::format("{} takes {}, got {}{}", name, dtype_names(taken), shown(dtype), halves_remark(dtype));
  }

  Fault value_fault(const KernelValue& value, const KernelReduce& reduce) const {
    if (!reduce.reduction) return "it has no reduction";
    if (reduce.over.empty()) return "it reduces over no dim";
    if (auto fault = dim_fault(63 - std::countl_zero(reduce.over.bits)); !fault.empty()) return fault;
    if (auto fault = operand_fault(reduce.operand); !fault.empty()) return fault;
    const auto dtype = kernel_.values[reduce.operand].dtype;
    const Reduction& reduction = *reduce.reduction;
    if (auto fault = taken_fault(reduction.name, reduction.operands, dtype); !fault.empty()) return fault;
    if (reduction.result == ReductionResult::kSame) return result_fault(value.dtype, dtype);
    if (reduction.result == ReductionResult::kPosition) return result_fault(value.dtype, at::kLong);
    if (has_dtype(kNumbers, value.dtype) && c10::promoteTypes(dtype, value.dtype) == value.dtype) return {};
    return fmt::format("{} accumulates in the dtype of its result, {}, which has to be one of {} that {} promotes to",
                       reduction.name, shown(value.dtype), dtype_names(kNumbers), shown(dtype));
  }

  Fault store_fault(const KernelStore& store) const {
    if (store.output < 0 || static_cast<size_t>(store.output) >= kernel_.outputs.size())
      return fmt::format("got y{}, but the kernel has {} outputs", store.output, kernel_.outputs.size());
    if (auto fault = operand_fault(store.value); !fault.empty()) return fault;
    if (auto fault = map_fault(store.map); !fault.empty()) return fault;
    const auto dtype = kernel_.outputs[store.output];
    if (auto fault = dtype_fault("the value", store.value, dtype); !fault.empty()) return fault;
    if (store.is_add) return has_dtype(kBools, dtype) ? "b8 has no sum; store an i64, or take `reduce any`" : "";
    return overlap_fault(kernel_, store, domains_);
  }

  std::optional<KernelProblem> unstored_output() const {
    std::vector<bool> is_stored(kernel_.outputs.size());
    for (const KernelStore& store : kernel_.stores) is_stored[store.output] = true;
    for (size_t i = 0; i < is_stored.size(); ++i) {
      if (is_stored[i]) continue;
      return KernelProblem{std::nullopt,
                           fmt::format("kernel '{}': the output y{} is never stored; store it, or take it "
                                       "out of the kernel",
                                       kernel_.name, i)};
    }
    return std::nullopt;
  }

  const Kernel& kernel_;
  size_t known_ = 0;  // values of lower number are defined
  std::vector<DimSet> domains_;
};

}  // namespace

std::optional<KernelProblem> find_problem(const Kernel& kernel) { return KernelChecker(kernel).run(); }

}  // namespace diptych::detail
