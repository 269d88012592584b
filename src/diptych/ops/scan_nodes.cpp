#include "diptych/ops/scan_nodes.h"

#include <algorithm>

#include "diptych/base/check.h"
#include "diptych/ops/hop_schemas.h"

namespace diptych::detail {
namespace {

// If no stack has a front, the attribute has its default, so that it is not printed.
std::vector<int64_t> written_fronts(const ScanAttributes& scan) {
  const bool any = std::any_of(scan.fronts.begin(), scan.fronts.end(), [](int64_t carry) { return carry >= 0; });
  return any ? scan.fronts : std::vector<int64_t>();
}

std::vector<TensorMeta> results(const Graph& body, size_t num_carries, const ScanAttributes& scan, bool by_blocks) {
  std::vector<TensorMeta> metas;
  for (size_t i = 0; i < num_carries; ++i) metas.push_back(body.meta(body.inputs()[i]));
  for (size_t i = num_carries; i < body.outputs().size(); ++i) {
    const TensorMeta& row = body.meta(body.outputs()[i]);
    const int64_t rows = scan.length + (scan.has_front(i - num_carries) ? 1 : 0);
    metas.push_back(stacked(by_blocks ? slice_of(row) : row, rows));
  }
  return metas;
}

}  // namespace

const HopSchema& scan_schema() {
  static const HopSchema* const schema = add_hop_schema(
      "scan(Tensor[] init, Tensor[] xs, Tensor[] free, int length, bool reverse, int unroll=1, int[] fronts=[])",
      {"step"});
  return *schema;
}

const HopSchema& blocked_scan_schema() {
  static const HopSchema* const schema = add_hop_schema(
      "blocked_scan(Tensor[] init, Tensor[] xs, Tensor[] free, int length, bool reverse, int block, int[] fronts=[])",
      {"steps"});
  return *schema;
}

ScanAttributes ScanAttributes::of(const HopAttributes& attributes) {
  ScanAttributes scan{attributes.integer("length"), attributes.flag("reverse")};
  if (attributes.has("unroll")) scan.unroll = attributes.integer("unroll");
  if (attributes.has("fronts")) scan.fronts = attributes.integers("fronts");
  return scan;
}

HopAttributes scan_attributes(const ScanAttributes& scan) {
  return {
      scan_schema(),
      {{"length", scan.length}, {"reverse", scan.reverse}, {"unroll", scan.unroll}, {"fronts", written_fronts(scan)}}};
}

HopAttributes blocked_scan_attributes(const ScanAttributes& scan, int64_t block) {
  DIPTYCH_ASSERT(block > 0 && scan.length % block == 0, "blocks of {} do not make {} steps", block, scan.length);
  return {blocked_scan_schema(),
          {{"length", scan.length}, {"reverse", scan.reverse}, {"block", block}, {"fronts", written_fronts(scan)}}};
}

std::vector<TensorMeta> scan_results(const Graph& body, size_t num_carries, const ScanAttributes& scan) {
  return results(body, num_carries, scan, /*by_blocks=*/false);
}

std::vector<TensorMeta> blocked_scan_results(const Graph& body, size_t num_carries, const ScanAttributes& scan) {
  return results(body, num_carries, scan, /*by_blocks=*/true);
}

}  // namespace diptych::detail
