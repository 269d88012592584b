// Instructions of one scalar operation on the operands' type.
#pragma once
#include <fmt/format.h>
#include <string>
#include <vector>

#include "diptych/native/kernel/dtypes.h"
#include "diptych/native/scalar/scalar_code.h"

namespace diptych::detail {

/// Shorthands for one call: the operands' type is written once, and instructions differ for floats and integers.
class OpCode {
 public:
  OpCode(LlvmWriter& writer, const ScalarCall& call)
      : writer_(writer), call_(call), type_(llvm_type(call.operand, call.lanes)) {}

  const std::string& operator[](size_t i) const { return call_.operands[i]; }
  const std::string& type() const { return type_; }
  std::string bool_type() const { return llvm_type(at::kBool, call_.lanes); }
  at::ScalarType dtype() const { return call_.operand; }
  bool is_float() const { return has_dtype(kFloats, call_.operand); }
  bool is_unsigned() const { return call_.operand == at::kByte || call_.operand == at::kBool; }
  const ScalarCall& call() const { return call_; }
  LlvmWriter& writer() const { return writer_; }

  // "add" and the like on two values of the operands' type.
  std::string binary(std::string_view instruction, const std::string& a, const std::string& b) const {
    return writer_.value("{} {} {}, {}", instruction, type_, a, b);
  }
  // A comparison: "olt", "slt"; LLVM has separate ones for floats and integers.
  std::string compare(std::string_view predicate, const std::string& a, const std::string& b) const {
    return writer_.value("{} {} {} {}, {}", is_float() ? "fcmp" : "icmp", predicate, type_, a, b);
  }
  std::string select(const std::string& condition, const std::string& yes, const std::string& no) const {
    return writer_.value("select {} {}, {} {}, {} {}", bool_type(), condition, type_, yes, type_, no);
  }
  std::string logic(std::string_view instruction, const std::string& a, const std::string& b) const {
    return writer_.value("{} {} {}, {}", instruction, bool_type(), a, b);
  }
  std::string constant(double number) const {
    const KernelNumber held = is_float() ? KernelNumber{number} : KernelNumber{static_cast<int64_t>(number)};
    const std::string scalar = constant_text(held, call_.operand);
    return call_.lanes == 0 ? scalar : writer_.splat(llvm_type(call_.operand, 0), scalar, call_.lanes);
  }
  std::string is_nan(const std::string& a) const { return writer_.value("fcmp uno {} {}, {}", type_, a, a); }
  // A function of LLVM's own that takes and returns the operands' type: "llvm.floor".
  std::string intrinsic(std::string_view name, const std::vector<std::string>& arguments,
                        std::string_view more = "") const {
    std::string types, values;
    for (const std::string& argument : arguments) {
      types += (types.empty() ? "" : ", ") + type_;
      values += fmt::format("{}{} {}", values.empty() ? "" : ", ", type_, argument);
    }
    if (!more.empty()) {
      types += ", i1";
      values += fmt::format(", {}", more);
    }
    const std::string symbol = fmt::format("@{}.{}", name, suffix());
    writer_.declare(fmt::format("{} {}({})", type_, symbol, types));
    return writer_.value("call {} {}({})", type_, symbol, values);
  }

 private:
  // "v8f32": the part of an intrinsic's name that says for which type it is.
  std::string suffix() const {
    const int bits = static_cast<int>(c10::elementSize(call_.operand)) * 8;
    const std::string lanes = call_.lanes == 0 ? "" : fmt::format("v{}", call_.lanes);
    return fmt::format("{}{}{}", lanes, is_float() ? "f" : "i", bits);
  }

  LlvmWriter& writer_;
  const ScalarCall& call_;
  std::string type_;
};

}  // namespace diptych::detail
