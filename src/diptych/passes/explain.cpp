// Shows people what a split saves: each residual with its bytes, the node that makes it and the nodes that read it.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "diptych/base/error.h"
#include "diptych/graph/recomputation.h"
#include "diptych/passes/partition.h"
#include "diptych/passes/storage_roots.h"

namespace diptych {

using namespace detail;
namespace {

/// The storages of a forward graph's residuals, each paid for once.
class ResidualStorages {
 public:
  explicit ResidualStorages(const Split& split) : graph_(split.forward), roots_(detail::storage_roots(graph_)) {
    is_paid_.resize(graph_.num_values());
    for (const Value input : graph_.inputs()) is_paid_[input.id] = true;
    for (size_t i = 0; i < split.layout.num_outputs; ++i) {
      if (const Value output = graph_.outputs()[i]) is_paid_[roots_[output.id].id] = true;
    }
  }
  /// Returns the bytes of new storage that `residual` keeps alive and that no earlier call has paid for.
  int64_t pay(Value residual) {
    const Value root = roots_[residual.id];
    const bool is_new = !is_paid_[root.id] && graph_.info(root).kind == ValueInfo::Kind::kNode;
    is_paid_[root.id] = true;
    return is_new ? graph_.meta(root).nbytes() : 0;
  }

 private:
  const Graph& graph_;
  std::vector<Value> roots_;
  std::vector<bool> is_paid_;
};

std::vector<Value> residuals_of(const Split& split) {
  const auto& outputs = split.forward.outputs();
  return {outputs.begin() + static_cast<std::ptrdiff_t>(split.layout.num_forward_outputs()), outputs.end()};
}

std::string maker_of(const Graph& graph, Value value) {
  const auto& info = graph.info(value);
  if (info.kind == ValueInfo::Kind::kInput) return "input " + graph.input_slots()[info.index].path;
  const Node* node = graph.producer(value);
  if (node == nullptr) return "constant";
  const auto& [scope, name] = std::tie(node->provenance.scope, node->provenance.residual_name);
  std::string text = scope.empty() ? node->op.name() : fmt::format("{} in {}", node->op.name(), scope.str());
  return name.empty() ? text : fmt::format("{}, named {}", text, name.str());
}

// Names of the operators that read each of the first `count` inputs, each name once, in order.
std::vector<std::string> readers_of_inputs(const Graph& graph, size_t count) {
  std::vector<std::vector<std::string>> readers(count);
  for (const Node& node : graph.nodes()) {
    for_each_operand_value(node, [&](Value value) {
      const auto& info = graph.info(value);
      if (info.kind != ValueInfo::Kind::kInput || static_cast<size_t>(info.index) >= count) return;
      auto& names = readers[info.index];
      if (auto name = node.op.name(); std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    });
  }
  for (const Value output : graph.outputs()) {
    if (!output || graph.info(output).kind != ValueInfo::Kind::kInput) continue;
    if (const auto index = static_cast<size_t>(graph.info(output).index); index < count)
      readers[index].push_back("a gradient");
  }
  std::vector<std::string> joined;
  for (const auto& names : readers) joined.push_back(fmt::format("{}", fmt::join(names, ", ")));
  return joined;
}

// Returns a line for each checkpoint region of which the backward recomputes something, in the order in which it does.
std::string recomputed_text(const Graph& backward) {
  std::vector<std::pair<InternedString, size_t>> regions;
  for (const Node& node : backward.nodes()) {
    const Provenance& from = node.provenance;
    if (!is_checkpoint_recomputation(from)) continue;
    const auto is_its = [&](const auto& entry) { return entry.first == from.region; };
    const auto found = std::find_if(regions.begin(), regions.end(), is_its);
    found == regions.end() ? void(regions.emplace_back(from.region, 1)) : void(++found->second);
  }
  std::string text;
  for (const auto& [region, count] : regions) {
    text += fmt::format("recomputed in {}: {} node{}\n", region.str(), count, count == 1 ? "" : "s");
  }
  return text;
}

using Columns = std::array<std::string, 5>;

std::string aligned(const std::vector<Columns>& rows) {
  std::array<size_t, 5> widths{};
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    auto line = fmt::format("{:<{}}  {:<{}}  {:>{}}  {:<{}}  {}", row[0], widths[0], row[1], widths[1], row[2],
                            widths[2], row[3], widths[3], row[4]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace

std::vector<ResidualRow> explain_rows(const Split& split) {
  const auto residuals = residuals_of(split);
  const auto readers = readers_of_inputs(split.backward, residuals.size());
  ResidualStorages storages(split);
  std::vector<ResidualRow> rows;
  for (size_t i = 0; i < residuals.size(); ++i) {
    const Value value = residuals[i];
    rows.push_back({fmt::format("%{}", value.id), type_string(split.forward.meta(value)), storages.pay(value),
                    maker_of(split.forward, value), readers[i]});
  }
  return rows;
}

std::string explain(const Split& split) {
  std::vector<Columns> table{{"residual", "type", "bytes", "made by", "wanted by"}};
  int64_t total = 0;
  for (const auto& row : explain_rows(split)) {
    table.push_back({row.value, row.type, std::to_string(row.bytes), row.made_by, row.wanted_by});
    total += row.bytes;
  }
  table.push_back({"total", fmt::format("{} residuals", table.size() - 1), std::to_string(total), "", ""});
  return aligned(table) + recomputed_text(split.backward);
}

int64_t residual_bytes(const Split& split) {
  int64_t bytes = 0;
  ResidualStorages storages(split);
  for (const Value residual : residuals_of(split)) bytes += storages.pay(residual);
  return bytes;
}

}  // namespace diptych
