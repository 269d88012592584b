// The attributes of one use of a higher-order operator, by name, and nodes made of them.
#pragma once
#include <string_view>
#include <utility>
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych {

/// One attribute as a caller passes it: {"length", 1000}.
using HopAttribute = std::pair<std::string_view, c10::IValue>;

/// The attributes that a schema declares, each with its value or its default. Threads: any.
class HopAttributes {
 public:
  /// Requires: `given` names attributes of the schema, each at most once, and among them all that have no default.
  HopAttributes(const HopSchema& schema, const std::vector<HopAttribute>& given);
  /// Returns the attributes of `node`. Requires: a node of a higher-order operator, whose attributes hold no symbols.
  static HopAttributes of(const Node& node);

  bool has(std::string_view name) const;
  /// Requires: has(name).
  const c10::IValue& at(std::string_view name) const;
  int64_t integer(std::string_view name) const { return at(name).toInt(); }
  bool flag(std::string_view name) const { return at(name).toBool(); }
  std::vector<int64_t> integers(std::string_view name) const { return at(name).toIntVector(); }
  std::vector<bool> flags(std::string_view name) const;
  /// The values of all attributes, in the schema's order.
  const std::vector<c10::IValue>& values() const { return values_; }

 private:
  explicit HopAttributes(const HopSchema& schema) : schema_(&schema) {}

  const HopSchema* schema_;
  std::vector<c10::IValue> values_;
};

/// Returns a list of bools in the form in which an attribute holds it.
c10::IValue flags_attribute(const std::vector<bool>& flags);

/// Returns the values of one group of a node's operands. Requires: a node of a higher-order operator.
ValueList group_of(const Node& node, std::string_view group);

/// Returns a node of `hop` without outputs. `groups`: the values of each group, in the schema's order.
Node make_hop_node(const HopSchema& hop, const std::vector<ValueList>& groups, const HopAttributes& attributes,
                   std::vector<std::shared_ptr<const Graph>> bodies = {});

}  // namespace diptych
