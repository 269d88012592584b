"""tools/affected.py tells which tests a change can affect."""
import unittest

from load import load

affected = load("affected")

NAMES = ("backends_native_jit", "backends_xla_shape", "compile_check", "docs.links_lead_somewhere", "docs_spec", "fuzz", "hops_scan",
         "package.example", "python.hops", "python.package", "python.suites_of_operators", "python.xla", "samples_calls", "tools.sz", "training_mesh_step", "xla_step")
TESTS = [{"name": name, "command": ["/b/bin/test", f"--gtest_filter={name.split('_')[-1]}_test.cpp:more_test.cpp"]} for name in NAMES]


def names(*paths):
    return affected.affected(TESTS, list(paths))


class Affected(unittest.TestCase):
    def test_a_source_of_cases_affects_the_test_that_runs_them(self):
        self.assertEqual(names("tests/hops/scan_test.cpp"), ["hops_scan"])

    def test_what_a_folder_shares_affects_its_tests(self):
        self.assertEqual(names("tests/hops/subjects.cpp"), ["hops_scan"])
        self.assertEqual(names("tests/backends/native/cases.h"), ["backends_native_jit"])
        self.assertEqual(names("tests/samples/cases.cpp"), ["backends_native_jit", "samples_calls"])
        self.assertEqual(names("tests/python/hops/test_bodies.py"), ["python.hops"])
        self.assertEqual(names("tests/python/suites/judge.py"), ["python.suites_of_operators"])

    def test_a_room_that_few_use_affects_these(self):
        self.assertEqual(names("src/diptych/xla/hlo/hlo_text.cpp"),
                         ["backends_xla_shape", "fuzz", "python.suites_of_operators", "python.xla", "samples_calls", "training_mesh_step", "xla_step"])

    def test_any_other_room_may_affect_all_that_runs_the_library(self):
        found = names("src/diptych/graph/graph.cpp")
        self.assertEqual(set(NAMES) - set(found), {"docs.links_lead_somewhere", "package.example", "python.package", "tools.sz"})

    def test_each_of_several_files_counts_once(self):
        self.assertEqual(names("tests/hops/scan_test.cpp", "tools/sz.py", "tests/hops/subjects.cpp"), ["hops_scan", "tools.sz"])
        self.assertEqual(names(), [])


if __name__ == "__main__":
    unittest.main()
