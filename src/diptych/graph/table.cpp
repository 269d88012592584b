// Graph::table(): one row per node in aligned columns.
#include <fmt/format.h>
#include <array>

#include "diptych/base/error.h"
#include "diptych/graph/graph.h"
#include "diptych/graph/names.h"
#include "diptych/graph/operand.h"
#include "diptych/graph/print.h"

namespace diptych {

using namespace detail;
namespace {

using Row = std::array<std::string, 6>;
constexpr size_t kMaxCell = 56;

size_t width(const std::string& text) {
  size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return count;
}

// Cuts long cells between characters.
std::string shortened(std::string text) {
  if (width(text) <= kMaxCell) return text;
  size_t end = 0, count = 0;
  while (end < text.size() && (count < kMaxCell - 1 || (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80)) {
    count += (static_cast<unsigned char>(text[end]) & 0xc0) != 0x80;
    if (count > kMaxCell - 1) break;
    ++end;
  }
  return text.substr(0, end) + "…";
}

// Quotes and line breaks would break the table; a scope is printed as quoted_text() escapes it.
std::string one_line(const std::string& text) {
  const auto escaped = quoted_text(text);
  return escaped.substr(1, escaped.size() - 2);
}

Row row_of(const Graph& graph, const Node& node, int64_t& bytes) {
  Row row;
  bytes = 0;
  for (const Value output : node.outputs) {
    const auto separator = row[0].empty() ? "" : ", ";
    row[0] += separator + (output ? fmt::format("%{}", output.id) : "none");
    row[1] += separator + (output ? type_string(graph.meta(output)) : "none");
    if (output) bytes += graph.meta(output).nbytes();
  }
  row[2] = node.op.name();
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const auto text = operand_text(node.operands[i], operand_type(node.op, i));
    if (text != "None" && text != "none") row[3] += (row[3].empty() ? "" : ", ") + text;
  }
  row[4] = one_line(node.provenance.scope.str());
  if (!node.provenance.region.empty()) row[4] += (row[4].empty() ? "" : " · ") + region_text(node.provenance);
  row[5] = bytes_text(bytes);
  for (auto& cell : row) cell = shortened(std::move(cell));
  return row;
}

std::string line(const Row& row, const std::array<size_t, 6>& widths) {
  std::string text;
  for (size_t i = 0; i < row.size(); ++i) {
    const std::string padding(widths[i] - width(row[i]), ' ');
    text += i == 5 ? padding + row[i] : row[i] + padding + "  ";
  }
  return text + "\n";
}

std::string plural(size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace

std::string Graph::table() const {
  std::vector<Row> rows{{"value", "type", "operator", "operands", "scope", "bytes"}};
  int64_t total = 0;
  for (const Node& node : nodes()) {
    int64_t bytes = 0;
    rows.push_back(row_of(*this, node, bytes));
    total += bytes;
  }
  std::array<size_t, 6> widths{};
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  Row rule;
  for (size_t i = 0; i < rule.size(); ++i) rule[i] = std::string(widths[i], '-');
  rows.insert(rows.begin() + 1, rule);
  std::string text;
  for (const auto& row : rows) text += line(row, widths);
  return text + fmt::format("{}: {}, {}, {}, {}; {} in the values that nodes make\n", name(),
                            plural(nodes().size(), "node"), plural(inputs().size(), "input"),
                            plural(outputs().size(), "output"), plural(constants().size(), "constant"),
                            bytes_text(total));
}

}  // namespace diptych
