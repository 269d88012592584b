#include "diptych/native/plan/block.h"

namespace diptych::detail {

char* region_at(const void* memory) {
  static char nowhere = 0;
  return memory == nullptr ? &nowhere : static_cast<char*>(const_cast<void*>(memory));
}

Regions Block::regions(char* memory) const {
  Regions regions(memory_region() + 1 + constants.size());
  regions[memory_region()] = memory;
  for (size_t i = 0; i < constants.size(); ++i) {
    regions[memory_region() + 1 + i] = region_at(constants[i].const_data_ptr());
  }
  return regions;
}

bool Block::run(char* const* regions, Workspace& workspace) const {
  for (const auto& step : steps) {
    if (!step->run(regions, workspace)) return false;
  }
  return true;
}

}  // namespace diptych::detail
