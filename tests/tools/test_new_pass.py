"""tools/new_pass.py writes files that belong together, keeps the layers, and overwrites nothing."""
import tempfile
import unittest
from pathlib import Path

from load import load

new_pass = load("new_pass")
layers = load("check_layers")

ROOMS = "lib_room(graph SOURCES\n  graph.cpp)\nlib_room(passes DEPS ops SOURCES\n  cse.cpp\n  fuse.cpp)\nlib_room(z SOURCES\n  z.cpp)\n"


class NewPass(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "src/diptych").mkdir(parents=True)
        (self.root / "src/diptych/CMakeLists.txt").write_text(ROOMS)

    def test_header_source_test_and_cmake_lines_are_made(self):
        new_pass.make_pass(self.root, "drop_views")
        self.assertIn("Graph drop_views(const Graph& graph);", (self.root / "src/diptych/passes/drop_views.h").read_text())
        self.assertIn("TEST(DropViews, ", (self.root / "tests/passes/drop_views_test.cpp").read_text())
        self.assertIn("SOURCES\n  cse.cpp\n  drop_views.cpp\n  fuse.cpp)\nlib_room(z", (self.root / "src/diptych/CMakeLists.txt").read_text())
        self.assertEqual(
            (self.root / "tests/passes/CMakeLists.txt").read_text(),
            "diptych_test(passes_drop_views SOURCES drop_views_test.cpp)\n",
        )

    def test_what_is_made_keeps_the_layers(self):
        new_pass.make_pass(self.root, "drop_views")
        _, faults = layers.check_tree(self.root / "src/diptych")
        self.assertEqual([fault for fault in faults if fault.file.startswith("passes/")], [])

    def test_nothing_is_overwritten(self):
        new_pass.make_pass(self.root, "drop_views")
        with self.assertRaisesRegex(SystemExit, "passes/drop_views.h exists already"):
            new_pass.make_pass(self.root, "drop_views")

    def test_a_name_that_is_no_identifier_is_refused(self):
        for name in ("DropViews", "drop-views", "", "../x", "1st"):
            with self.assertRaisesRegex(SystemExit, "snake_case"):
                new_pass.make_pass(self.root, name)

    def test_a_tree_without_the_room_is_left_alone(self):
        (self.root / "src/diptych/CMakeLists.txt").write_text("lib_room(graph SOURCES\n  graph.cpp)\n")
        with self.assertRaisesRegex(SystemExit, r"no lib_room\(passes"):
            new_pass.make_pass(self.root, "drop_views")
        self.assertFalse((self.root / "src/diptych/passes").exists())


if __name__ == "__main__":
    unittest.main()
