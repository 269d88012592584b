// The graphs that docs/spec.md shows are graphs, print as they stand there, and break the rules that they are said to.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <sstream>

#include "diptych/base/error.h"
#include "diptych/graph/parse.h"
#include "diptych/graph/verify.h"

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
    const Graph graph = parse(block.text);
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

}  // namespace
}  // namespace diptych::testing
