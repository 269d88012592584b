#include "diptych/native/codegen/folds.h"

#include <algorithm>
#include <array>
#include <limits>

#include "diptych/base/check.h"
#include "diptych/native/kernel/reduction.h"
#include "diptych/native/kernel/scalar_op.h"
#include "diptych/native/scalar/scalar_code.h"

namespace diptych::detail {
namespace {

enum class First : uint8_t { kZero, kOne, kLowest, kHighest };

struct Fold {
  std::string_view reduction, operation;
  First first;
};
constexpr std::array<Fold, 8> kFolds = {{{"sum", "add", First::kZero},
                                         {"prod", "mul", First::kOne},
                                         {"max", "max", First::kLowest},
                                         {"min", "min", First::kHighest},
                                         {"argmax", "gt", First::kLowest},
                                         {"argmin", "lt", First::kHighest},
                                         {"any", "or", First::kZero},
                                         {"all", "and", First::kOne}}};

const Fold& fold_of(const Reduction& reduction) {
  const auto* fold = std::ranges::find(kFolds, reduction.name, &Fold::reduction);
  DIPTYCH_ASSERT(fold != kFolds.end(), "no code for the reduction {}", reduction.name);
  return *fold;
}

KernelNumber end_of(at::ScalarType dtype, bool is_lowest) {
  if (has_dtype(kFloats, dtype)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return {is_lowest ? -infinity : infinity};
  }
  if (dtype == at::kBool || dtype == at::kByte) return {int64_t{is_lowest ? 0 : dtype == at::kBool ? 1 : 255}};
  const int bits = static_cast<int>(c10::elementSize(dtype)) * 8;
  const int64_t highest = std::numeric_limits<int64_t>::max() >> (64 - bits);
  return {is_lowest ? -highest - 1 : highest};
}

std::string call(LlvmWriter& writer, std::string_view op, at::ScalarType dtype, std::vector<std::string> operands,
                 int lanes) {
  const ScalarOp* row = find_scalar_op(op);
  const at::ScalarType result = row->result == ResultRule::kBool ? at::kBool : dtype;
  return write_scalar_op(writer, {row, dtype, result, std::move(operands), lanes});
}

}  // namespace

std::string first_of(const Reduction& reduction, at::ScalarType dtype) {
  const First first = fold_of(reduction).first;
  if (first == First::kLowest || first == First::kHighest) {
    return constant_text(end_of(dtype, first == First::kLowest), dtype);
  }
  const int number = first == First::kOne ? 1 : 0;
  return constant_text(has_dtype(kFloats, dtype) ? KernelNumber{double(number)} : KernelNumber{int64_t{number}}, dtype);
}

std::string write_fold(LlvmWriter& writer, const Reduction& reduction, at::ScalarType dtype, const std::string& a,
                       const std::string& b, int lanes) {
  return call(writer, fold_of(reduction).operation, dtype, {a, b}, lanes);
}

std::string write_fold_of_lanes(LlvmWriter& writer, const Reduction& reduction, at::ScalarType dtype,
                                const std::string& vector, int lanes) {
  std::string folded = vector;
  const std::string element = llvm_type(dtype, 0);
  for (int left = lanes; left > 1; left /= 2) {
    const std::string low = writer.lanes_of(element, folded, left, 0, left / 2);
    const std::string high = writer.lanes_of(element, folded, left, left / 2, left / 2);
    folded = write_fold(writer, reduction, dtype, low, high, left / 2);
  }
  return writer.value("extractelement {} {}, i64 0", llvm_type(element, 1), folded);
}

Extreme write_more_extreme(LlvmWriter& writer, const Reduction& reduction, at::ScalarType dtype, const Extreme& a,
                           const Extreme& b, int lanes) {
  const std::string flags = llvm_type(at::kBool, lanes), type = llvm_type(dtype, lanes);
  const std::string positions = llvm_type(at::kLong, lanes);
  const auto logic = [&](std::string_view name, const std::string& x, const std::string& y) {
    return writer.value("{} {} {}, {}", name, flags, x, y);
  };
  std::string is_beyond = call(writer, fold_of(reduction).operation, dtype, {b.element, a.element}, lanes);
  std::string is_equal = call(writer, "eq", dtype, {a.element, b.element}, lanes);
  if (has_dtype(kFloats, dtype)) {
    const std::string a_is_nan = writer.value("fcmp uno {} {}, {}", type, a.element, a.element);
    const std::string b_is_nan = writer.value("fcmp uno {} {}, {}", type, b.element, b.element);
    // The comparisons above are false of a NaN.
    const std::string differ = logic("xor", a_is_nan, b_is_nan);
    is_beyond = logic("or", is_beyond, logic("and", b_is_nan, differ));
    is_equal = logic("or", is_equal, logic("and", a_is_nan, b_is_nan));
  }
  const std::string is_earlier = writer.value("icmp slt {} {}, {}", positions, b.position, a.position);
  const std::string takes_b = logic("or", is_beyond, logic("and", is_equal, is_earlier));
  return {writer.value("select {} {}, {} {}, {} {}", flags, takes_b, type, b.element, type, a.element),
          writer.value("select {} {}, {} {}, {} {}", flags, takes_b, positions, b.position, positions, a.position)};
}

}  // namespace diptych::detail
