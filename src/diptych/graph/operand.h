// The few kinds of operand that a schema's argument types come down to; comparing, checking and printing operands.
#pragma once
#include <string>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// The kinds of argument that operators take. kAny is an operand whose kind only its text tells, such as those of
/// higher-order operators in graph files before version 3. kOpaque is a type that graphs hold only as None (Storage,
/// Stream, classes).
enum class OperandKind : uint8_t {
  kAny,
  kTensor,
  kTensors,
  kInt,
  kInts,
  kFloat,
  kFloats,
  kBool,
  kBools,
  kNumber,
  kNumbers,
  kString,
  kStrings,
  kDtype,
  kLayout,
  kMemoryFormat,
  kDevice,
  kGenerator,
  kOpaque
};

/// The kind of one argument and whether it may be None.
struct OperandType {
  OperandKind kind = OperandKind::kAny;
  bool is_optional = true;
};

/// The operand type of argument `index` of `op`; kAny if the schema has no such argument.
OperandType operand_type(const Op& op, size_t index);
OperandType operand_type(const c10::Argument& argument);
/// "int[]?" and the like, for messages.
std::string describe(OperandType type);

/// Prints an operand so that parse() can tell what it was. Undefined tensors print as `none`, None as `None`.
std::string operand_text(const Operand& operand, OperandType type);
/// Returns what is wrong with an operand in the place of `type`, "expected int[], got a float"; empty if nothing is.
std::string operand_problem(const Operand& operand, OperandType type);
/// The operand that is an argument's default, if it has one.
std::optional<Operand> default_operand(const c10::Argument& argument);

/// Whether two operands are the same alternative with the same content; floating-point numbers compare by bits, except
/// that all NaNs are equal.
bool identical(const Operand& a, const Operand& b);

/// A string in double quotes with escapes; invalid UTF-8 is escaped byte by byte.
std::string quoted_text(std::string_view text);
/// A number as code() prints it: the shortest text that reads back as the same number, with a point or an exponent.
std::string float_text(double number);

}  // namespace diptych::detail
