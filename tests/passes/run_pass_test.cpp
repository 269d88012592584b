// What running a pass does besides the pass.
#include "diptych/passes/run_pass.h"

#include <torch/types.h>

#include "diptych/base/error.h"
#include "diptych/base/switches.h"
#include "diptych/graph/rewrite.h"
#include "diptych/passes/remove_dead_nodes.h"
#include "testing/expect_error.h"
#include "testing/pass_case.h"

namespace diptych {

using namespace detail;
namespace {

Graph sample() {
  return parse(R"(graph f(%0 x : f32[2])
  %1 : f32[2] = aten.tanh(%0)
  return (%0 y)
)");
}

Graph dead(const Graph& graph) { return remove_dead_nodes(graph); }

TEST(RunPass, RunsThePass) { EXPECT_EQ(run_pass("remove_dead_nodes", sample(), dead).nodes().size(), 0U); }

TEST(RunPass, SkipsByNameFromOptionsAndEnvironment) {
  EXPECT_EQ(run_pass("remove_dead_nodes", sample(), dead, {.off = {"remove_dead_nodes"}}).nodes().size(), 1U);
  EXPECT_EQ(run_pass("remove_dead_nodes", sample(), dead, {.off = {"remove"}}).nodes().size(), 0U);
  setenv("DIPTYCH_PASSES_OFF", "merge_common_nodes,remove_dead_nodes", 1);
  EXPECT_EQ(run_pass("remove_dead_nodes", sample(), dead).nodes().size(), 1U);
  setenv("DIPTYCH_PASSES_OFF", "all", 1);
  EXPECT_EQ(run_pass("remove_dead_nodes", sample(), dead).nodes().size(), 1U);
  unsetenv("DIPTYCH_PASSES_OFF");
}

TEST(RunPass, NamesThePassThatBrokeAGraph) {
  const auto lose_outputs = [](const Graph& graph) {
    Graph copy = graph;
    copy.set_outputs({}, {});
    return copy;
  };
  testing::expect_error<InternalError>(
      [&] { run_pass("lose_outputs", sample(), lose_outputs, {.off = {}, .verify = true}); },
      "pass 'lose_outputs' turned 1 inputs and 1 outputs of 'f' into 1 and 0");
}

TEST(RunPass, LogsWhatChanged) {
  std::string lines;
  set_log("passes");
  set_log_sink([&](std::string_view line) { lines += line; });
  run_pass("remove_dead_nodes", sample(), dead);
  set_log("");
  set_log_sink({});
  EXPECT_NE(lines.find("remove_dead_nodes of 'f': 1 -> 0 nodes in "), std::string::npos) << lines;
  EXPECT_NE(lines.find("return (%0 y)"), std::string::npos) << lines;
}

}  // namespace
}  // namespace diptych
