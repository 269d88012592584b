#!/usr/bin/env python3
"""Makes a new pass that builds and changes nothing yet, with its test and its CMake lines: tools/new_pass.py <verb>

The verb is the function's name, such as remove_dead_views. Existing files are never overwritten.
"""
import re
import sys
from pathlib import Path

HEADER = """\
// {title}: say here in a line or two what graphs have too much of, and where it comes from.
//
//   graph f(%0 x : f32[2])
//     %1 : f32[2] = aten.tanh(%0)
//     return (%1 y)
// ==>
//   graph f(%0 x : f32[2])
//     %1 : f32[2] = aten.tanh(%0)
//     return (%1 y)
#pragma once
#include "diptych/graph/graph.h"

namespace diptych {{

/// Returns `graph` with [what is different].
/// Requires: a graph that verifies. Ensures: slots are kept; [what later passes may rely on]; idempotent.
Graph {verb}(const Graph& graph);

}}  // namespace diptych
"""

SOURCE = """\
#include "diptych/passes/{verb}.h"

#include "diptych/graph/rewrite.h"

namespace diptych {{

Graph {verb}(const Graph& graph) {{
  Rewriter rewriter(graph);
  rewriter.graph().set_name(graph.name());
  rewriter.copy_inputs();
  for (const Node& node : graph.nodes()) rewriter.copy_node(node);
  return rewriter.finish();
}}

}}  // namespace diptych
"""

TEST = """\
// Graph text in, graph text out.
#include "diptych/passes/{verb}.h"

#include <gtest/gtest.h>

#include "diptych/graph/parse.h"

namespace diptych {{
namespace {{

std::string after(const char* text) {{ return {verb}(parse(text)).code(); }}

TEST({camel}, KeepsWhatItHasNoBusinessWith) {{
  const char* text = R"(graph f(%0 x : f32[2])
  %1 : f32[2] = aten.tanh(%0)
  return (%1 y)
)";
  EXPECT_EQ(after(text), parse(text).code());
}}

TEST({camel}, ChangesNothingTheSecondTime) {{
  const auto once = after("graph f(%0 x : f32[2])\\n  %1 : f32[2] = aten.tanh(%0)\\n  return (%1 y)\\n");
  EXPECT_EQ(after(once.c_str()), once);
}}

}}  // namespace
}}  // namespace diptych
"""


def add_source(cmake: str, verb: str) -> str:
    """Adds <verb>.cpp to the sources of room passes, in alphabetical order."""
    block = re.search(r"lib_room\(passes\b.*?SOURCES\n(.*?)\)", cmake, re.S)
    if block is None:
        raise SystemExit("new_pass: src/diptych/CMakeLists.txt has no lib_room(passes ... SOURCES, one per line)")
    sources = sorted({*block.group(1).split(), f"{verb}.cpp"})
    return cmake[: block.start(1)] + "\n".join(f"  {name}" for name in sources) + cmake[block.end(1) :]


def make_pass(root: Path, verb: str) -> list[Path]:
    """Writes the files of a pass below `root`; returns them. Errors: SystemExit says what to mend."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", verb):
        raise SystemExit(f"new_pass: expected a verb in snake_case, such as remove_dead_views, got '{verb}'")
    texts = {
        root / f"src/diptych/passes/{verb}.h": HEADER,
        root / f"src/diptych/passes/{verb}.cpp": SOURCE,
        root / f"tests/passes/{verb}_test.cpp": TEST,
    }
    if existing := [path for path in texts if path.exists()]:
        raise SystemExit(f"new_pass: {existing[0].relative_to(root)} exists already; choose another name")
    rooms = root / "src/diptych/CMakeLists.txt"
    with_source = add_source(rooms.read_text(), verb)
    title = verb.replace("_", " ").capitalize()
    camel = "".join(word.capitalize() for word in verb.split("_"))
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(verb=verb, title=title, camel=camel))
    rooms.write_text(with_source)
    tests = root / "tests/passes/CMakeLists.txt"
    with tests.open("a") as file:
        file.write(f"diptych_test(passes_{verb} SOURCES {verb}_test.cpp)\n")
    return [*texts, rooms, tests]


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    root = Path(__file__).resolve().parent.parent
    for path in make_pass(root, sys.argv[1]):
        print(path.relative_to(root))
    print("Next: say in the header what the pass ensures, and give it its line in src/diptych/scan_passes/pipeline.cpp")
    return 0


if __name__ == "__main__":
    sys.exit(main())
