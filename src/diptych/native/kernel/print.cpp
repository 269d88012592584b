#include "diptych/native/kernel/print.h"

#include <fmt/format.h>
#include <cmath>

#include "diptych/graph/tensor_meta.h"
#include "diptych/native/kernel/reduction.h"
#include "diptych/native/kernel/scalar_op.h"

namespace diptych::detail {
namespace {

std::string dtype_text(at::ScalarType dtype) {
  const auto name = find_dtype_name(dtype);
  return name.empty() ? c10::toString(dtype) : std::string(name);
}

// The shortest text that the dtype reads as this number.
std::string float_text(double number, bool is_single) {
  if (std::isnan(number)) return "nan";
  return is_single ? fmt::format("{}", static_cast<float>(number)) : fmt::format("{}", number);
}

std::string number_text(const KernelNumber& number, at::ScalarType dtype) {
  if (const auto* integer = std::get_if<int64_t>(&number.number)) {
    const bool is_word = dtype == at::kBool && (*integer == 0 || *integer == 1);
    return is_word ? *integer ? "true" : "false" : fmt::format("{}", *integer);
  }
  const bool is_single = dtype == at::kFloat || dtype == at::kComplexFloat;
  if (const auto* real = std::get_if<double>(&number.number)) return float_text(*real, is_single);
  const auto complex = std::get<std::complex<double>>(number.number);
  return fmt::format("({}, {})", float_text(complex.real(), is_single), float_text(complex.imag(), is_single));
}

// A term without its sign.
std::string magnitude_text(const IndexTerm& term) {
  const SizeTerm& coefficient = term.coefficient;
  std::string text;
  const auto multiply = [&](const std::string& by) { text += (text.empty() ? "" : "*") + by; };
  const auto magnitude = coefficient.factor < 0 ? 0 - static_cast<uint64_t>(coefficient.factor)
                                                : static_cast<uint64_t>(coefficient.factor);
  if (magnitude != 1) multiply(fmt::format("{}", magnitude));
  if (!coefficient.is_constant()) multiply(fmt::format("s{}", coefficient.symbol));
  if (term.factor == IndexFactor::kDim) multiply(fmt::format("d{}", term.id));
  if (term.factor == IndexFactor::kValue) multiply(fmt::format("%{}", term.id));
  return text.empty() ? "1" : text;
}

std::string list_of_values(const std::vector<int32_t>& values) {
  std::string text;
  for (const int32_t value : values) text += fmt::format("{}%{}", text.empty() ? "" : ", ", value);
  return text;
}

std::string made_by_text(const KernelConstant& constant, at::ScalarType dtype) {
  return "constant " + number_text(constant.number, dtype);
}

std::string made_by_text(const KernelIndex& index, at::ScalarType) { return "index " + map_text(index.map); }

std::string made_by_text(const KernelLoad& load, at::ScalarType) {
  const auto text = fmt::format("load x{}[{}]", load.input, map_text(load.map));
  return load.mask ? fmt::format("{} if %{} else %{}", text, load.mask->condition, load.mask->other) : text;
}

std::string made_by_text(const KernelScalar& scalar, at::ScalarType) {
  return fmt::format("{} {}", scalar.op ? scalar.op->name : "nothing", list_of_values(scalar.operands));
}

std::string made_by_text(const KernelReduce& reduce, at::ScalarType) {
  std::string dims;
  for (int32_t dim = 0; dim < kMaxDims; ++dim) {
    if (reduce.over.contains(dim)) dims += fmt::format("{}d{}", dims.empty() ? "" : ", ", dim);
  }
  const auto name = reduce.reduction ? reduce.reduction->name : "nothing";
  return fmt::format("reduce {} %{} over {}", name, reduce.operand, dims);
}

std::string value_line(const Kernel& kernel, size_t index) {
  const KernelValue& value = kernel.values[index];
  const auto made_by = std::visit([&](const auto& way) { return made_by_text(way, value.dtype); }, value.made_by);
  return fmt::format("%{} : {} = {}", index, dtype_text(value.dtype), made_by);
}

std::string store_line(const KernelStore& store) {
  return fmt::format("store {}y{}[{}] = %{}", store.is_add ? "add " : "", store.output, map_text(store.map),
                     store.value);
}

}  // namespace

std::string size_text(const SizeTerm& size) {
  if (size.is_constant()) return fmt::format("{}", size.factor);
  return size.factor == 1 ? fmt::format("s{}", size.symbol) : fmt::format("{}*s{}", size.factor, size.symbol);
}

std::string map_text(const IndexMap& map) {
  std::string text;
  for (const IndexTerm& term : map.terms()) {
    const bool is_negative = term.coefficient.factor < 0;
    text += text.empty() ? (is_negative ? "-" : "") : (is_negative ? " - " : " + ");
    text += magnitude_text(term);
  }
  return text.empty() ? "0" : text;
}

std::string line_text(const Kernel& kernel, size_t line) {
  const size_t num_values = kernel.values.size();
  return line < num_values ? value_line(kernel, line) : store_line(kernel.stores.at(line - num_values));
}

std::string print(const Kernel& kernel) {
  std::string text = fmt::format("kernel {}(", kernel.name);
  for (size_t i = 0; i < kernel.extents.size(); ++i)
    text += fmt::format("{}d{}={}", i > 0 ? ", " : "", i, size_text(kernel.extents[i]));
  text += ")";
  for (size_t i = 0; i < kernel.hints.size(); ++i)
    text += fmt::format("{}s{}={}", i > 0 ? ", " : " where ", i, kernel.hints[i]);
  text += " {\n";
  for (size_t i = 0; i < kernel.inputs.size(); ++i)
    text += fmt::format("  x{} : {}\n", i, dtype_text(kernel.inputs[i]));
  for (size_t i = 0; i < kernel.outputs.size(); ++i)
    text += fmt::format("  y{} : {}\n", i, dtype_text(kernel.outputs[i]));
  for (size_t i = 0; i < kernel.values.size() + kernel.stores.size(); ++i) text += "  " + line_text(kernel, i) + "\n";
  return text + "}\n";
}

}  // namespace diptych::detail
