"""tools/test_targets.py tells what tests need built."""
import unittest

from load import load

test_targets = load("test_targets")


def targets(*tests):
    return test_targets.targets_of([{"name": name, "command": command} for name, command in tests], "/b")


class Targets(unittest.TestCase):
    def test_a_program_of_the_build_folder_is_one(self):
        self.assertEqual(targets(("compile_aot", ["/b/bin/test_compile", "--gtest_filter=Aot.*"])), ["bin/test_compile"])
        self.assertEqual(targets(("a", ["/b/bin/launch", "/b/bin/x"]), ("b", ["/b/bin/x"])), ["bin/launch", "bin/x"])

    def test_tests_of_the_python_package_need_that(self):
        self.assertEqual(targets(("python.hops", ["python", "-m", "pytest"]), ("a", ["/b/bin/x"])), ["bin/x", "diptych_python"])

    def test_tools_need_nothing_and_other_scripts_may_need_all(self):
        self.assertEqual(targets(("tools.sz", ["python"])), [])
        self.assertEqual(targets(("tools.sz", ["python"]), ("docs.pages", ["python"])), ["all"])
        self.assertEqual(targets(("python.package", ["python"])), ["all"])


if __name__ == "__main__":
    unittest.main()
