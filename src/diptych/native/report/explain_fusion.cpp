#include "diptych/native/report/explain_fusion.h"

#include <fmt/format.h>

#include <functional>
#include <vector>

#include "diptych/native/fusion/fuse.h"
#include "diptych/native/fusion/fused_node.h"
#include "diptych/native/prepare/prepare.h"
#include "diptych/native/report/text_table.h"

namespace diptych::detail {
namespace {

void for_each_body(const Graph& fused, const std::function<void(const Graph&)>& visit) {
  for (const Node& node : fused.nodes()) {
    for (const auto& body : node.subgraphs) is_fused(node) ? visit(*body) : for_each_body(*body, visit);
  }
}

}  // namespace

std::string explain_fusion(const Graph& graph) {
  FusionRecord record;
  const Graph fused = fuse(graph, becomes_kernel, &record);
  std::vector<TableRow> kernels{{"kernel", "fuses", "reads", "writes"}};
  for_each_body(fused, [&](const Graph& body) {
    std::vector<std::string> operators;
    for (const Node& node : body.nodes()) operators.push_back(node.op.name());
    kernels.push_back({fmt::format("{} {}", kernels.size() - 1, body.name()), operator_list(operators),
                       std::to_string(body.inputs().size()), std::to_string(body.outputs().size())});
  });
  std::string text = aligned_table(kernels, {2, 3});
  if (record.gaps.empty()) return text;
  std::vector<TableRow> gaps{{"from", "to", "value", "why they are two"}};
  for (const FusionGap& gap : record.gaps) gaps.push_back({gap.maker, gap.reader, gap.type, gap.why});
  return text + "\n" + aligned_table(gaps, {});
}

}  // namespace diptych::detail
