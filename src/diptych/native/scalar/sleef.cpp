#include "diptych/native/scalar/sleef.h"
#include <fmt/format.h>

namespace diptych::detail {
namespace {

// The error in units in the last place that the name says: these functions have no version of 1.0.
std::string_view error_of(std::string_view name) {
  if (name == "erfc") return "u15";
  return name == "hypot" ? "u05" : "u10";
}

class SleefCall {
 public:
  SleefCall(LlvmWriter& writer, std::string_view name, const ScalarCall& call)
      : writer_(writer),
        call_(call),
        lanes_(writer.target().vector_bytes / static_cast<int>(c10::elementSize(call.operand))),
        element_(llvm_type(call.operand, 0)),
        type_(llvm_type(call.operand, lanes_)) {
    symbol_ = fmt::format("@Sleef_{}{}{}_{}", name, call.operand == at::kFloat ? "f" : "d", lanes_, error_of(name));
    std::string types = type_;
    for (size_t i = 1; i < call.operands.size(); ++i) types += ", " + type_;
    // It reads and writes no memory, so passes may move it and merge equal calls.
    writer_.declare(fmt::format("{} {}({}) nounwind willreturn memory(none)", type_, symbol_, types));
  }

  std::string write() {
    if (call_.lanes == 0) return on_scalar();
    return on_lanes(call_.operands, call_.lanes);
  }

 private:
  std::string call_once(const std::vector<std::string>& operands) {
    std::string arguments;
    for (const std::string& operand : operands) {
      arguments += fmt::format("{}{} {}", arguments.empty() ? "" : ", ", type_, operand);
    }
    return writer_.value("call {} {}({})", type_, symbol_, arguments);
  }

  std::string on_scalar() {
    std::vector<std::string> vectors;
    for (const std::string& operand : call_.operands) vectors.push_back(writer_.splat(element_, operand, lanes_));
    return writer_.value("extractelement {} {}, i64 0", type_, call_once(vectors));
  }

  // Vectors have two to the power of something lanes, so halves end at the host's length or below it.
  std::string on_lanes(const std::vector<std::string>& operands, int lanes) {
    if (lanes == lanes_) return call_once(operands);
    if (lanes < lanes_) return on_fewer_lanes(operands, lanes);
    std::vector<std::string> low, high;
    for (const std::string& operand : operands) {
      low.push_back(writer_.lanes_of(element_, operand, lanes, 0, lanes / 2));
      high.push_back(writer_.lanes_of(element_, operand, lanes, lanes / 2, lanes / 2));
    }
    const std::string low_result = on_lanes(low, lanes / 2), high_result = on_lanes(high, lanes / 2);
    return writer_.joined(element_, low_result, high_result, lanes / 2);
  }

  std::string on_fewer_lanes(std::vector<std::string> operands, int lanes) {
    for (std::string& operand : operands) {
      for (int have = lanes; have < lanes_; have *= 2) operand = writer_.joined(element_, operand, operand, have);
    }
    return writer_.lanes_of(element_, call_once(operands), lanes_, 0, lanes);
  }

  LlvmWriter& writer_;
  const ScalarCall& call_;
  int lanes_;
  std::string element_, type_, symbol_;
};

}  // namespace

std::string write_sleef_call(LlvmWriter& writer, std::string_view name, const ScalarCall& call) {
  return SleefCall(writer, name, call).write();
}

}  // namespace diptych::detail
