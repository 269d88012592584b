// Reading one operand, and the sizes and types that operands and values share.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "diptych/graph/operand.h"
#include "diptych/graph/text_cursor.h"

namespace diptych::detail {

/// What a name in an operand can mean: the sizes' symbols, and the check that a value has been defined.
struct OperandScope {
  std::map<std::string, int64_t> symbols;
  std::function<bool(int32_t)> is_defined;
};

/// Reads what operand_text() prints. Errors: UserError with line and column.
Operand parse_operand(TextCursor& cursor, OperandType type, const OperandScope& scope);
/// Reads `%7` or `none`.
Value parse_value(TextCursor& cursor, const OperandScope& scope);
/// Reads `f32[2,s0]{s0,1}@cpu grad`.
TensorMeta parse_meta(TextCursor& cursor, const OperandScope& scope);
/// Reads the number after '%'.
int32_t parse_value_number(TextCursor& cursor);

}  // namespace diptych::detail
