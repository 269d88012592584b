#include "diptych/graph/hop_attributes.h"

#include <algorithm>

#include "diptych/base/check.h"
#include "diptych/graph/operand.h"

namespace diptych {

using namespace detail;

HopAttributes::HopAttributes(const HopSchema& schema, const std::vector<HopAttribute>& given) : schema_(&schema) {
  const auto& arguments = schema.schema().arguments();
  for (size_t i = schema.num_groups(); i < arguments.size(); ++i) {
    const auto found =
        std::find_if(given.begin(), given.end(), [&](const auto& one) { return one.first == arguments[i].name(); });
    DIPTYCH_ASSERT(found != given.end() || arguments[i].default_value(), "hop.{} was made without '{}'", schema.name(),
                   arguments[i].name());
    values_.push_back(found != given.end() ? found->second : *arguments[i].default_value());
    const auto problem = operand_problem(values_.back(), operand_type(arguments[i]));
    DIPTYCH_ASSERT(problem.empty(), "'{}' of hop.{}: {}", arguments[i].name(), schema.name(), problem);
  }
  for (const auto& [name, value] : given) {
    DIPTYCH_ASSERT(has(name), "hop.{} has no attribute '{}'", schema.name(), name);
  }
}

HopAttributes HopAttributes::of(const Node& node) {
  HopAttributes attributes(node.op.hop());
  for (size_t i = node.op.hop().num_groups(); i < node.operands.size(); ++i) {
    attributes.values_.push_back(std::get<c10::IValue>(node.operands[i]));
  }
  return attributes;
}

bool HopAttributes::has(std::string_view name) const {
  const auto index = schema_->schema().argumentIndexWithName(name);
  return index && static_cast<size_t>(*index) >= schema_->num_groups();
}

const c10::IValue& HopAttributes::at(std::string_view name) const {
  DIPTYCH_ASSERT(has(name), "hop.{} has no attribute '{}'", schema_->name(), name);
  return values_.at(static_cast<size_t>(*schema_->schema().argumentIndexWithName(name)) - schema_->num_groups());
}

std::vector<bool> HopAttributes::flags(std::string_view name) const {
  std::vector<bool> flags;
  for (const bool flag : at(name).toBoolList()) flags.push_back(flag);
  return flags;
}

c10::IValue flags_attribute(const std::vector<bool>& flags) {
  c10::List<bool> list;
  for (const bool flag : flags) list.push_back(flag);
  return list;
}

ValueList group_of(const Node& node, std::string_view group) {
  const auto index = node.op.schema().argumentIndexWithName(group);
  DIPTYCH_ASSERT(index && static_cast<size_t>(*index) < node.op.hop().num_groups(), "hop.{} has no group '{}'",
                 node.op.hop().name(), group);
  const Operand& operand = node.operands[*index];
  if (const auto* value = std::get_if<Value>(&operand)) return {*value};
  return std::get<ValueList>(operand);
}

Node make_hop_node(const HopSchema& hop, const std::vector<ValueList>& groups, const HopAttributes& attributes,
                   std::vector<std::shared_ptr<const Graph>> bodies) {
  DIPTYCH_ASSERT(groups.size() == hop.num_groups(), "hop.{} got {} groups, expected {}", hop.name(), groups.size(),
                 hop.num_groups());
  Node node{Op(&hop), {}, {}, {}, std::move(bodies), {}};
  for (size_t i = 0; i < groups.size(); ++i) {
    const bool is_single = operand_type(hop.schema().arguments()[i]).kind == OperandKind::kTensor;
    DIPTYCH_ASSERT(!is_single || groups[i].size() == 1, "'{}' of hop.{} is one tensor, got {}",
                   hop.schema().arguments()[i].name(), hop.name(), groups[i].size());
    node.operands.push_back(is_single ? Operand(groups[i][0]) : Operand(groups[i]));
  }
  for (const auto& value : attributes.values()) node.operands.push_back(value);
  return node;
}

}  // namespace diptych
