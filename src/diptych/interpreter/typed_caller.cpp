#include "diptych/interpreter/typed_caller.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/jit_type.h>

#include <mutex>
#include <optional>

namespace diptych::detail {
namespace {

// The letters of one schema type; "#" stands for a type that no row has.
std::string type_code(const c10::TypePtr& type) {
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return "T";
    case c10::TypeKind::NumberType:
      return "S";
    case c10::TypeKind::IntType:
      return "I";
    case c10::TypeKind::SymIntType:
      return "Y";
    case c10::TypeKind::FloatType:
      return "F";
    case c10::TypeKind::BoolType:
      return "B";
    case c10::TypeKind::ScalarTypeType:
      return "D";
    case c10::TypeKind::LayoutType:
      return "L";
    case c10::TypeKind::DeviceObjType:
      return "V";
    case c10::TypeKind::MemoryFormatType:
      return "M";
    case c10::TypeKind::GeneratorType:
      return "G";
    case c10::TypeKind::StringType:
      return "N";
    case c10::TypeKind::OptionalType:
      return "?" + type_code(type->expectRef<c10::OptionalType>().getElementType());
    case c10::TypeKind::ListType:
      return "[" + type_code(type->expectRef<c10::ListType>().getElementType());
    default:
      return "#";
  }
}

std::string type_code(const c10::Argument& argument) {
  const bool is_written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
  const auto code = type_code(argument.real_type());
  if (!is_written) return code;
  return code == "T" ? "W" : "#";
}

std::string schema_code(const c10::FunctionSchema& schema) {
  std::string code;
  for (const auto& argument : schema.arguments()) code += type_code(argument) + ",";
  code += "->";
  for (const auto& result : schema.returns()) code += type_code(result);
  return code;
}

const SignatureTable& signature_table() {
  static const SignatureTable table = [] {
    SignatureTable rows;
    add_pointwise_signatures(rows);
    add_inplace_signatures(rows);
    add_shape_signatures(rows);
    add_factory_signatures(rows);
    add_reduction_signatures(rows);
    add_neural_signatures(rows);
    return rows;
  }();
  return table;
}

const SignatureRow* search_row(const c10::OperatorHandle& handle) {
  const auto found = signature_table().find(schema_code(handle.schema()));
  if (found == signature_table().end()) return nullptr;
  for (const auto& row : found->second) {
    try {
      row.check(handle);
      return &row;
    } catch (const c10::Error&) {
      // Another C++ signature with the same schema letters; the next row may be the one.
    }
  }
  return nullptr;
}

// Programs are compiled often, so each operator is searched for once in the process.
const SignatureRow* find_row(const c10::OperatorHandle& handle) {
  static std::mutex mutex;
  static std::unordered_map<c10::OperatorName, const SignatureRow*> known;
  const std::lock_guard lock(mutex);
  const auto [entry, is_new] = known.try_emplace(handle.operator_name(), nullptr);
  if (is_new) entry->second = search_row(handle);
  return entry->second;
}

// Returns how many tensors a schema returns; nullopt where a list makes the number vary.
std::optional<size_t> fixed_return_count(const c10::FunctionSchema& schema) {
  for (const auto& result : schema.returns()) {
    if (result.real_type()->kind() == c10::TypeKind::ListType) return std::nullopt;
  }
  return schema.returns().size();
}

}  // namespace

std::unique_ptr<Caller> make_typed_caller(const c10::OperatorHandle& handle, OperandTable& table,
                                          c10::ArrayRef<Operand> operands, OutputRegisters outputs) {
  if (handle.operator_name().getNamespace() != "aten") return nullptr;
  const auto* row = find_row(handle);
  if (row == nullptr) return nullptr;
  const auto count = fixed_return_count(handle.schema());
  if (count && *count != outputs.size()) return nullptr;
  return row->make(handle, table, operands, outputs);
}

}  // namespace diptych::detail
