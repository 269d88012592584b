#include "diptych/native/scalar/casts.h"

#include "diptych/native/kernel/dtypes.h"

namespace diptych::detail {
namespace {

bool is_unsigned(at::ScalarType dtype) { return dtype == at::kByte || dtype == at::kBool; }
bool is_integer(at::ScalarType dtype) { return has_dtype(kIntegers | kBools, dtype); }
int bits_of(at::ScalarType dtype) { return dtype == at::kBool ? 1 : static_cast<int>(c10::elementSize(dtype)) * 8; }

class Cast {
 public:
  Cast(LlvmWriter& writer, int lanes) : writer_(writer), lanes_(lanes) {}

  std::string convert(at::ScalarType from, at::ScalarType to, const std::string& value) {
    if (from == to) return value;
    // Halves go through f32, which is how ATen converts them, too.
    if (from == at::kBFloat16) return convert(at::kFloat, to, from_bfloat16(value));
    if (to == at::kBFloat16) return to_bfloat16(convert(from, at::kFloat, value));
    if (from == at::kHalf) return convert(at::kFloat, to, change("fpext", at::kHalf, at::kFloat, value));
    if (to == at::kHalf) return change("fptrunc", at::kFloat, at::kHalf, convert(from, at::kFloat, value));
    if (to == at::kBool) return is_not_zero(from, value);
    if (is_integer(from)) return from_integer(from, to, value);
    if (is_integer(to)) return float_to_integer(from, to, value);
    return change(from == at::kFloat ? "fpext" : "fptrunc", from, to, value);
  }

 private:
  std::string change(std::string_view instruction, at::ScalarType from, at::ScalarType to, const std::string& value) {
    return writer_.value("{} {} {} to {}", instruction, llvm_type(from, lanes_), value, llvm_type(to, lanes_));
  }

  std::string from_integer(at::ScalarType from, at::ScalarType to, const std::string& value) {
    if (!is_integer(to)) return change(is_unsigned(from) ? "uitofp" : "sitofp", from, to, value);
    if (bits_of(from) == bits_of(to)) return value;
    if (bits_of(from) > bits_of(to)) return change("trunc", from, to, value);
    return change(is_unsigned(from) ? "zext" : "sext", from, to, value);
  }

  // What x86 makes of a float that does not fit is taken for all hosts: the smallest integer of 32 bits, of 64 for i64
  // and u8, whose low bits are then the result. LLVM leaves it undefined, so it is never asked.
  std::string float_to_integer(at::ScalarType from, at::ScalarType to, const std::string& value) {
    const auto wide = to == at::kLong || to == at::kByte ? at::kLong : at::kInt;
    const std::string type = llvm_type(from, lanes_), flags = llvm_type(at::kBool, lanes_);
    const std::string end = splat(from, wide == at::kLong ? "0x43E0000000000000" : "0x41E0000000000000");
    const std::string begin = splat(from, wide == at::kLong ? "0xC3E0000000000000" : "0xC1E0000000000000");
    const std::string below = writer_.value("fcmp olt {} {}, {}", type, value, end);
    // Of f64 and i32 alone, numbers between -2^31 - 1 and -2^31 are cut to -2^31 either way.
    const std::string above = writer_.value("fcmp oge {} {}, {}", type, value, begin);
    const std::string fits = writer_.value("and {} {}, {}", flags, below, above);
    const std::string safe = writer_.value("select {} {}, {} {}, {} {}", flags, fits, type, value, type, begin);
    return convert(wide, to, change("fptosi", from, wide, safe));
  }

  std::string is_not_zero(at::ScalarType from, const std::string& value) {
    const bool is_float = has_dtype(kFloats, from);
    return writer_.value("{} {} {}, zeroinitializer", is_float ? "fcmp une" : "icmp ne", llvm_type(from, lanes_),
                         value);
  }

  std::string splat(at::ScalarType dtype, const std::string& constant) {
    return lanes_ == 0 ? constant : writer_.splat(llvm_type(dtype, 0), constant, lanes_);
  }

  std::string from_bfloat16(const std::string& value) {
    const std::string wide = llvm_type(at::kInt, lanes_);
    const std::string bits = writer_.value("zext {} {} to {}", llvm_type(at::kBFloat16, lanes_), value, wide);
    const std::string shifted = writer_.value("shl {} {}, {}", wide, bits, splat(at::kInt, "16"));
    return writer_.value("bitcast {} {} to {}", wide, shifted, llvm_type(at::kFloat, lanes_));
  }

  // Rounds to the nearest, halves to the even one; a NaN becomes ATen's.
  std::string to_bfloat16(const std::string& value) {
    const std::string wide = llvm_type(at::kInt, lanes_), from = llvm_type(at::kFloat, lanes_);
    const std::string to = llvm_type(at::kBFloat16, lanes_);
    const std::string bits = writer_.value("bitcast {} {} to {}", from, value, wide);
    const std::string high = writer_.value("lshr {} {}, {}", wide, bits, splat(at::kInt, "16"));
    const std::string odd = writer_.value("and {} {}, {}", wide, high, splat(at::kInt, "1"));
    const std::string half = writer_.value("add {} {}, {}", wide, odd, splat(at::kInt, "32767"));
    const std::string sum = writer_.value("add {} {}, {}", wide, bits, half);
    const std::string rounded = writer_.value("lshr {} {}, {}", wide, sum, splat(at::kInt, "16"));
    const std::string cut = writer_.value("trunc {} {} to {}", wide, rounded, to);
    const std::string is_nan = writer_.value("fcmp uno {} {}, {}", from, value, value);
    return writer_.value("select {} {}, {} {}, {} {}", llvm_type(at::kBool, lanes_), is_nan, to,
                         splat(at::kBFloat16, "32704"), to, cut);
  }

  LlvmWriter& writer_;
  int lanes_;
};

}  // namespace

std::string write_cast(LlvmWriter& writer, at::ScalarType from, at::ScalarType to, const std::string& value,
                       int lanes) {
  return Cast(writer, lanes).convert(from, to, value);
}

}  // namespace diptych::detail
