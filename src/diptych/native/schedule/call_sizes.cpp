#include "diptych/native/schedule/call_sizes.h"

#include <algorithm>

#include "diptych/native/kernel/memory_extent.h"

namespace diptych::detail {

int64_t count_rows(const Schedule& schedule, const std::vector<int64_t>& symbols) {
  int64_t rows = 1;
  for (const int32_t d : schedule.outer) rows *= SizeProduct(schedule.extent(d)).at(symbols);
  if (schedule.vector_dim < 0 || schedule.is_vector_in_row) return rows;
  const int64_t extent = SizeProduct(schedule.extent(schedule.vector_dim)).at(symbols);
  return rows * ((extent + schedule.block - 1) / schedule.block);
}

PartialSizes partial_sizes(const Schedule& schedule, const std::vector<int64_t>& symbols) {
  PartialSizes sizes;
  for (const FinalReduction& final : schedule.final_reductions) {
    const auto size = static_cast<int64_t>(c10::elementSize(schedule.kernel.values[final.value].dtype));
    sizes.offsets.push_back(sizes.bytes);
    sizes.bytes += rounded_up(final.count.at(symbols) * size, kCacheLine);
  }
  const int64_t by_memory = std::max<int64_t>(1, kMostPartialBytes / std::max<int64_t>(sizes.bytes, 1));
  sizes.chunks = std::max<int64_t>(1, std::min({count_rows(schedule, symbols), kMostChunks, by_memory}));
  return sizes;
}

std::vector<int64_t> code_parameters(const Schedule& schedule, const std::vector<int64_t>& symbols) {
  std::vector<int64_t> parameters = symbols;
  parameters.resize(schedule.parameters);
  if (schedule.chunks.is_constant()) return parameters;
  const PartialSizes sizes = partial_sizes(schedule, symbols);
  parameters[schedule.chunks.symbol] = sizes.chunks;
  parameters[schedule.partial_bytes.symbol] = sizes.bytes;
  for (size_t i = 0; i < sizes.offsets.size(); ++i) {
    parameters[schedule.final_reductions[i].offset.symbol] = sizes.offsets[i];
  }
  return parameters;
}

}  // namespace diptych::detail
