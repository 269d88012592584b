#include "diptych/ops/gradient_source.h"

#include <ATen/core/List.h>

namespace diptych::detail {

c10::IValue sources_attribute(const std::vector<GradientSource>& sources) {
  c10::List<int64_t> list;
  for (const auto& source : sources) {
    list.push_back(static_cast<int64_t>(source.kind));
    list.push_back(static_cast<int64_t>(source.index));
  }
  return list;
}

std::vector<GradientSource> gradient_sources(const std::vector<int64_t>& attribute) {
  std::vector<GradientSource> sources;
  for (size_t i = 0; i + 1 < attribute.size(); i += 2) {
    sources.push_back({static_cast<GradientSource::Kind>(attribute[i]), static_cast<size_t>(attribute[i + 1])});
  }
  return sources;
}

}  // namespace diptych::detail
