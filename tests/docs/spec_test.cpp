// The graphs that docs/spec.md shows are graphs, print as they stand there, and break the rules that they are said to.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "diptych/backward/eager_nodes.h"
#include "diptych/backward/update_parameters.h"
#include "diptych/base/error.h"
#include "diptych/graph/parse.h"
#include "diptych/graph/verify.h"
#include "diptych/hops/builtin_hops.h"
#include "diptych/ops/hop_schemas.h"

namespace diptych::testing {
namespace {

struct Block {
  std::string kind;  ///< "graph", or "graph wrong: <words of the message>"
  std::string text;
};

std::vector<Block> read_blocks() {
  std::ifstream stream(DIPTYCH_SPEC_PAGE);
  std::vector<Block> blocks;
  bool inside = false;
  for (std::string line; std::getline(stream, line);) {
    if (line.rfind("```", 0) == 0) {
      inside = !inside;
      if (inside) blocks.push_back({line.substr(3), ""});
    } else if (inside) {
      blocks.back().text += line + "\n";
    }
  }
  return blocks;
}

TEST(Spec, ShowsGraphsThatPrintAsTheyStand) {
  size_t count = 0;
  for (const auto& block : read_blocks()) {
    if (block.kind != "graph") continue;
    ++count;
    const Graph graph = parse(block.text, {}, find_hop);
    verify(graph);
    EXPECT_EQ(graph.code(), block.text);
  }
  EXPECT_GE(count, 4U);
}

TEST(Spec, ShowsMistakesWithWhatParseSaysOfThem) {
  size_t count = 0;
  for (const auto& block : read_blocks()) {
    const std::string prefix = "graph wrong: ";
    if (block.kind.rfind(prefix, 0) != 0) continue;
    ++count;
    const std::string words = block.kind.substr(prefix.size());
    try {
      (void)parse(block.text);
      ADD_FAILURE() << "parsed:\n" << block.text;
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }
  EXPECT_GE(count, 4U);
}

TEST(Spec, ListsEachHigherOrderOperatorAsItIsDeclared) {
  std::map<std::string, std::string> rows;  // name, then declaration and bodies
  std::ifstream stream(DIPTYCH_SPEC_PAGE);
  const std::regex row("^\\| `hop\\.((\\w+)\\(.*\\))` \\| ([^|]*) \\|.*$");
  for (std::string line; std::getline(stream, line);) {
    std::smatch match;
    if (std::regex_match(line, match, row)) rows[match[2]] = match[1].str() + " " + match[3].str();
  }
  detail::autograd_node_schema();
  detail::update_parameters_schema();
  for (const char* name : {"scan", "blocked_scan", "checkpointed_scan", "reverse_segments", "cond", "invoke",
                           "while_loop", "custom_vjp", "vjp", "autograd_node", "update_parameters"}) {
    const HopSchema* schema = find_hop(name);
    ASSERT_NE(schema, nullptr) << name;
    const auto bodies = schema->bodies().empty() ? "none" : fmt::format("{}", fmt::join(schema->bodies(), ", "));
    EXPECT_EQ(rows[name], schema->declaration() + " " + bodies);
    rows.erase(name);
  }
  EXPECT_TRUE(rows.empty()) << rows.begin()->first;
}

}  // namespace
}  // namespace diptych::testing
