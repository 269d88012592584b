#include "diptych/ops/hop_schemas.h"

#include <deque>
#include <mutex>
#include <string>

#include "diptych/base/error.h"

namespace diptych {
namespace {

// A deque, so that schemas keep their addresses; names are copied, a caller's string need not live on.
struct Registry {
  std::mutex mutex;
  std::deque<std::string> names;
  std::deque<HopSchema> schemas;

  const HopSchema* find(std::string_view name) const {
    for (const auto& schema : schemas) {
      if (schema.name == name) return &schema;
    }
    return nullptr;
  }
};

Registry& registry() {
  static auto* const kept = new Registry;  // never freed: Ops point into it until the process ends
  return *kept;
}

}  // namespace

const HopSchema* find_hop_schema(std::string_view name) {
  std::lock_guard lock(registry().mutex);
  return registry().find(name);
}

const HopSchema* add_hop_schema(HopSchema schema) {
  std::lock_guard lock(registry().mutex);
  if (const auto* known = registry().find(schema.name)) {
    DIPTYCH_CHECK(known->num_subgraphs == schema.num_subgraphs,
                  "[add_hop_schema] 'hop.{}' is already known with {} subgraphs, got one with {}; choose another name",
                  schema.name, known->num_subgraphs, schema.num_subgraphs);
    return known;
  }
  schema.name = registry().names.emplace_back(schema.name);
  return &registry().schemas.emplace_back(schema);
}

}  // namespace diptych
