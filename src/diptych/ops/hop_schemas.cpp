#include "diptych/ops/hop_schemas.h"

#include <deque>
#include <mutex>
#include <string>

#include "diptych/base/check.h"

namespace diptych::detail {
namespace {

// A deque, so that schemas keep their addresses.
struct Registry {
  std::mutex mutex;
  std::deque<HopSchema> schemas;

  const HopSchema* find(std::string_view name) const {
    for (const auto& schema : schemas) {
      if (schema.name() == name) return &schema;
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

const HopSchema* add_hop_schema(std::string_view declaration, std::vector<std::string> bodies) {
  HopSchema schema(declaration, std::move(bodies));
  std::lock_guard lock(registry().mutex);
  if (const auto* known = registry().find(schema.name())) {
    DIPTYCH_CHECK(*known == schema, "[add_hop_schema] hop.{} is already known as '{}', got '{}'; choose another name",
                  schema.name(), known->declaration(), schema.declaration());
    return known;
  }
  return &registry().schemas.emplace_back(std::move(schema));
}

}  // namespace diptych::detail
