#include "diptych/native/scalar/llvm_writer.h"

#include <array>
#include <utility>

#include "diptych/base/check.h"

namespace diptych::detail {
namespace {

struct TypeRow {
  at::ScalarType dtype;
  std::string_view in_register, in_memory;
};
constexpr std::array<TypeRow, 10> kTypes = {{{at::kBool, "i1", "i8"},
                                             {at::kByte, "i8", "i8"},
                                             {at::kChar, "i8", "i8"},
                                             {at::kShort, "i16", "i16"},
                                             {at::kInt, "i32", "i32"},
                                             {at::kLong, "i64", "i64"},
                                             {at::kHalf, "half", "half"},
                                             {at::kBFloat16, "i16", "i16"},
                                             {at::kFloat, "float", "float"},
                                             {at::kDouble, "double", "double"}}};

const TypeRow& type_row(at::ScalarType dtype) {
  for (const TypeRow& row : kTypes) {
    if (row.dtype == dtype) return row;
  }
  DIPTYCH_ASSERT(false, "no code for elements of dtype {}; codegen_problem() lets none through", c10::toString(dtype));
}

}  // namespace

std::string llvm_type(std::string_view element, int lanes) {
  return lanes == 0 ? std::string(element) : fmt::format("<{} x {}>", lanes, element);
}

std::string llvm_type(at::ScalarType dtype, int lanes) { return llvm_type(type_row(dtype).in_register, lanes); }

std::string llvm_memory_type(at::ScalarType dtype, int lanes) { return llvm_type(type_row(dtype).in_memory, lanes); }

void LlvmWriter::begin_function(const std::string& header) {
  header_ = header;
  entry_.clear();
  body_.clear();
  block_ = "entry";
}

void LlvmWriter::end_function() {
  // The variables' block goes on into the body's first one.
  functions_ += fmt::format("define {} {{\nvariables:\n{}  br label %entry\nentry:\n{}}}\n\n", header_, entry_, body_);
}

void LlvmWriter::block(const std::string& name) {
  body_ += name + ":\n";
  block_ = name;
}

std::string LlvmWriter::variable(const std::string& type) {
  std::string name = fresh();
  entry_ += fmt::format("  {} = alloca {}, align 64\n", name, type);
  return name;
}

std::string LlvmWriter::lane_numbers(std::string_view type, int lanes) {
  std::string text = "<";
  for (int i = 0; i < lanes; ++i) text += fmt::format("{}{} {}", i == 0 ? "" : ", ", type, i);
  return text + ">";
}

std::string LlvmWriter::splat(const std::string& type, const std::string& scalar, int lanes) {
  const std::string vector = llvm_type(type, lanes);
  const std::string first = value("insertelement {} poison, {} {}, i64 0", vector, type, scalar);
  return value("shufflevector {} {}, {} poison, <{} x i32> zeroinitializer", vector, first, vector, lanes);
}

std::string LlvmWriter::lanes_of(const std::string& element, const std::string& vector, int lanes, int first,
                                 int count) {
  std::string order;
  for (int i = 0; i < count; ++i) order += fmt::format("{}i32 {}", i == 0 ? "" : ", ", first + i);
  const std::string type = llvm_type(element, lanes);
  return value("shufflevector {} {}, {} poison, <{} x i32> <{}>", type, vector, type, count, order);
}

std::string LlvmWriter::halves_of_pairs(const std::string& element, const std::string& vector, int count, int which) {
  std::string order;
  for (int i = 0; i < count; ++i) order += fmt::format("{}i32 {}", i == 0 ? "" : ", ", 2 * i + which);
  const std::string type = llvm_type(element, 2 * count);
  return value("shufflevector {} {}, {} poison, <{} x i32> <{}>", type, vector, type, count, order);
}

std::string LlvmWriter::pairs_of(const std::string& element, const std::string& first, const std::string& second,
                                 int lanes) {
  std::string order;
  for (int i = 0; i < lanes; ++i) order += fmt::format("{}i32 {}, i32 {}", i == 0 ? "" : ", ", i, lanes + i);
  const std::string type = llvm_type(element, lanes);
  return value("shufflevector {} {}, {} {}, <{} x i32> <{}>", type, first, type, second, 2 * lanes, order);
}

std::string LlvmWriter::joined(const std::string& element, const std::string& low, const std::string& high, int lanes) {
  const std::string type = llvm_type(element, lanes);
  return value("shufflevector {} {}, {} {}, <{} x i32> {}", type, low, type, high, 2 * lanes,
               lane_numbers("i32", 2 * lanes));
}

std::string LlvmWriter::text() const {
  std::string text;
  for (const std::string& declaration : declarations_) text += "declare " + declaration + "\n";
  return text + "\n" + functions_;
}

}  // namespace diptych::detail
