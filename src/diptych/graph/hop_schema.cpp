#include "diptych/graph/hop_schema.h"

#include <torch/csrc/jit/frontend/function_schema_parser.h>

#include "diptych/base/check.h"
#include "diptych/base/error_words.h"
#include "diptych/graph/operand.h"

namespace diptych {

using namespace detail;
namespace {

constexpr std::string_view kNamespace = "hop::";

// Groups and attributes are always passed by name, which PyTorch's schemas express with a leading star.
std::string full_text(std::string_view declaration) {
  const auto open = declaration.find('(');
  DIPTYCH_CHECK(open != declaration.npos && declaration.ends_with(')'),
                "[HopSchema] got '{}', expected a name and arguments in parentheses, as in 'scan(Tensor[] init, int "
                "length)'",
                declaration);
  const auto arguments = declaration.substr(open + 1);
  const std::string_view star = arguments == ")" ? "" : "*, ";
  return fmt::format("{}{}({}{} -> Tensor[]", kNamespace, declaration.substr(0, open), star, arguments);
}

c10::FunctionSchema parse_declaration(std::string_view declaration) {
  const std::string text = full_text(declaration);
  try {
    return torch::jit::parseSchema(text);
  } catch (const std::exception& error) {
    throw UserError(
        fmt::format("[HopSchema] '{}' can't be read as a schema: {}", declaration, detail::words_of(error)));
  }
}

bool is_group(OperandKind kind) { return kind == OperandKind::kTensor || kind == OperandKind::kTensors; }

bool is_attribute(OperandKind kind) {
  switch (kind) {
    case OperandKind::kInt:
    case OperandKind::kInts:
    case OperandKind::kBool:
    case OperandKind::kBools:
    case OperandKind::kFloat:
    case OperandKind::kFloats:
    case OperandKind::kString:
    case OperandKind::kStrings:
      return true;
    default:
      return false;
  }
}

}  // namespace

HopSchema::HopSchema(std::string_view declaration, std::vector<std::string> bodies)
    : schema_(parse_declaration(declaration)), bodies_(std::move(bodies)) {
  name_ = schema_.name().substr(kNamespace.size());
  for (const auto& argument : schema_.arguments()) {
    const auto type = operand_type(argument);
    const bool fits = !type.is_optional && (is_group(type.kind) || is_attribute(type.kind));
    DIPTYCH_CHECK(fits,
                  "[HopSchema] '{}' of hop.{} is {}, expected a group of tensors (Tensor[] or Tensor) or an int, "
                  "bool, float or str, or a list of these",
                  argument.name(), name_, argument.type()->str());
    if (!is_group(type.kind)) continue;
    DIPTYCH_CHECK(&argument == &schema_.arguments()[num_groups_],
                  "[HopSchema] the group '{}' of hop.{} follows an attribute; put groups first", argument.name(),
                  name_);
    ++num_groups_;
  }
}

std::string HopSchema::declaration() const {
  std::string arguments;
  for (const auto& argument : schema_.arguments()) {
    arguments += (arguments.empty() ? "" : ", ") + c10::str(argument);
  }
  return fmt::format("{}({})", name_, arguments);
}

bool HopSchema::operator==(const HopSchema& other) const {
  return schema_ == other.schema_ && bodies_ == other.bodies_;
}

}  // namespace diptych
