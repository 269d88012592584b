#include "diptych/interpreter/hop_rules.h"

#include <map>
#include <mutex>
#include <string>

#include "diptych/base/check.h"

namespace diptych::detail {
namespace {

struct RuleTable {
  std::mutex mutex;
  struct Row {
    HopRule rule;
    HopSizes sizes = HopSizes::kStatic;
  };
  std::map<std::string, Row, std::less<>> rules;
};

RuleTable& rule_table() {
  static RuleTable table;
  return table;
}

}  // namespace

void register_interpreter_rule(const HopSchema& hop, HopRule rule, HopSizes sizes) {
  auto& table = rule_table();
  const std::lock_guard lock(table.mutex);
  table.rules.insert_or_assign(hop.name(), RuleTable::Row{std::move(rule), sizes});
}

bool takes_any_sizes(const HopSchema& hop) {
  auto& table = rule_table();
  const std::lock_guard lock(table.mutex);
  const auto found = table.rules.find(hop.name());
  return found != table.rules.end() && found->second.sizes == HopSizes::kAny;
}

bool has_interpreter_rule(const HopSchema& hop) {
  auto& table = rule_table();
  const std::lock_guard lock(table.mutex);
  return table.rules.find(hop.name()) != table.rules.end();
}

std::vector<at::Tensor> take_tensor_list(c10::IValue& operand) {
  auto list = std::move(operand).toTensorList();
  operand = c10::IValue();
  std::vector<at::Tensor> tensors;
  tensors.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) tensors.push_back(list.extract(i));
  return tensors;
}

HopKernel make_hop_kernel(const Node& node) {
  HopRule rule;
  {
    auto& table = rule_table();
    const std::lock_guard lock(table.mutex);
    if (const auto found = table.rules.find(node.op.hop().name()); found != table.rules.end())
      rule = found->second.rule;
  }
  DIPTYCH_CHECK(
      rule != nullptr,
      "[interpreter] there is no interpreter rule for {}; call the function that registers this operator first",
      node.op.name());
  // Outside the lock: the rule compiles subgraphs, which may hold higher-order operators in turn.
  return rule(node);
}

}  // namespace diptych::detail
