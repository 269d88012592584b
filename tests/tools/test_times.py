"""tools/times.py and tools/test.sh say what a run of make test spent its time on, and end with ctest's summary."""
import os
import shutil
import subprocess
import tempfile
import textwrap
import unittest
from pathlib import Path

from load import ROOT, load

times = load("times")

LOG = "# ninja log v5\n0\t2500\t1\tsrc/diptych/CMakeFiles/diptych_graph.dir/graph/graph.cpp.o\taa\n"
NEWER = (
    "10\t4010\t2\ttests/hops/CMakeFiles/test_hops_scan.dir/scan_test.cpp.o\tbb\n"
    "4010\t5010\t2\tbin/test_hops_scan\tcc\n"
    "4010\t5010\t2\ttests/hops/test_hops_scan_tests.cmake\tcc\n"
)
REPORT = """<?xml version="1.0"?>
<testsuite tests="4">
  <testcase name="hops_scan" time="1.5" status="run"><system-out>[==========] 12 tests from 1 test suite ran. (9 ms total)</system-out></testcase>
  <testcase name="hops_cond" time="0.25" status="fail"><failure message=""/></testcase>
  <testcase name="python.package" time="42.5" status="run"><system-out>....
4 passed, 1 skipped in 41.93s
</system-out></testcase>
  <testcase name="docs.links_lead_somewhere" time="0.125" status="run"/>
</testsuite>
"""


class Steps(unittest.TestCase):
    def setUp(self):
        self.log = Path(tempfile.mkdtemp()) / ".ninja_log"
        self.addCleanup(shutil.rmtree, self.log.parent)
        self.log.write_text(LOG + NEWER)

    def test_those_of_earlier_builds_do_not_count(self):
        outputs = [("tests/hops/CMakeFiles/test_hops_scan.dir/scan_test.cpp.o", 4.0), ("bin/test_hops_scan", 1.0)]
        self.assertEqual(times.read_steps(self.log, len(LOG)), outputs)

    def test_all_count_where_the_log_was_written_anew(self):
        self.assertEqual(len(times.read_steps(self.log, 10_000)), 3)
        self.assertEqual(times.read_steps(self.log.with_name("none"), 0), [])

    def test_are_grouped_by_the_folder_of_their_source(self):
        groups = [times.group_of_step(output) for output, _ in times.read_steps(self.log, 0)]
        self.assertEqual(groups, ["src/diptych", "tests/hops", "linking and the rest"])
        self.assertEqual(times.group_of_step("tests/CMakeFiles/diptych_test_pch.dir/cmake_pch.hxx.gch"), "tests")


class Table(unittest.TestCase):
    def test_names_stages_groups_and_long_tests(self):
        tests = [("hops_scan", 1.5), ("hops_cond", 0.25), ("python.package", 42.5), ("docs.links", 0.125)]
        lines = times.table([("build", 3.0), ("tests", 25.0)], [("src/diptych/CMakeFiles/a.o", 2.0)], tests, 15).splitlines()
        words = [" ".join(line.split()) for line in lines[1:]]
        self.assertEqual(words, [
            "build 3.0 1 steps, 2 s of them",
            "src/diptych 2.0 1 steps",
            "tests 25.0 4 tests of 15 cases, 44 s of them",
            "python 42.5 1 tests, package 42",
            "hops 1.8 2 tests",
            "others 0.1 1 tests",
            "total 28.0",
        ])


class Longest(unittest.TestCase):
    def test_the_twenty_that_took_longest_are_listed_one_by_one(self):
        rows = times.longest_rows([(f"test_{i:02}", float(i)) for i in range(30)], "tests")
        self.assertEqual([rows[0], len(rows)], ["the 20 longest tests:", 21])
        self.assertEqual([rows[1].split(), rows[-1].split()], [["29.0", "test_29"], ["10.0", "test_10"]])
        self.assertEqual(times.longest_rows([], "tests"), [])

    def test_links_are_no_compile_units(self):
        self.assertEqual([times.is_compilation((name, 1.0)) for name in ("a/x.cpp.o", "tests/cmake_pch.hxx.pch", "bin/test_x")], [True, True, False])


class Script(unittest.TestCase):
    """tools/test.sh in a repository where building, linting and testing are said by files."""

    def run_it(self, build=0, lint=0, ctest=0):
        folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        tools = folder / "tools"
        tools.mkdir()
        for name in ("test.sh", "test_environment.sh", "times.py"):
            shutil.copy(ROOT / "tools" / name, tools)
        summary = "100% tests passed, 0 tests failed out of 4" if ctest == 0 else "75% tests passed, 1 tests failed out of 4\n\nThe following tests FAILED:\n\t2 - hops_cond"
        programs = {
            tools / "build.sh": f"mkdir -p build/ci && cat {folder}/log >> build/ci/.ninja_log; exit {build}",
            tools / "lint.sh": f"exit {lint}",
            tools / "ctest": f'cat {folder}/report > "${{@: -1}}"; cat {folder}/summary; exit {ctest}',
        }
        (folder / "log").write_text(LOG + NEWER)
        (folder / "report").write_text(REPORT)
        (folder / "tests").mkdir()
        (folder / "tests" / "costs.txt").write_text("hops_cond 1 9.5\n")
        (folder / "summary").write_text(f"Test project\n{summary}\n")
        for path, text in programs.items():
            path.write_text(f"#!/usr/bin/env bash\n{text}\n")
            path.chmod(0o755)
        environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "DIPTYCH_TEST_PART": "3/10", "ONLY": ""}
        done = subprocess.run([tools / "test.sh", "ci", "1"], capture_output=True, text=True, env=environment)
        self.costs = folder / "build" / "ci" / "Testing" / "Temporary" / "CTestCostData.txt"
        return done.returncode, done.stdout.splitlines(), done.stderr

    def test_ends_with_the_summary_where_all_passed(self):
        status, lines, _ = self.run_it()
        self.assertEqual(status, 0)
        self.assertEqual(lines[-2:], ["100% tests passed, 0 tests failed out of 4", "test: everything passed (preset ci)"])
        self.assertTrue(any(line.split()[:1] == ["python"] and "package" in line for line in lines), lines)
        self.assertTrue(any("4 tests of 18 cases" in line for line in lines), lines)
        self.assertEqual([line.split()[0] for line in lines[-3:-2]], ["total"])
        self.assertTrue(any(line.startswith("test: part 3/10 of the samples that rotate") for line in lines), lines)
        self.assertEqual(self.costs.read_text(), "hops_cond 1 9.5\n")

    def test_says_the_times_and_what_failed(self):
        status, lines, errors = self.run_it(lint=1, ctest=8)
        self.assertEqual(status, 1)
        self.assertIn("test: FAILED: lint ctest", errors)
        self.assertEqual(lines[-1].strip(), "2 - hops_cond")
        self.assertTrue(any(line.split()[:1] == ["total"] for line in lines), lines)

    def test_says_the_times_of_a_build_that_failed(self):
        status, lines, errors = self.run_it(build=1)
        self.assertEqual(status, 1)
        self.assertIn("the build failed", errors)
        self.assertEqual([line.split()[0] for line in lines[-5:]], ["build", "tests/hops", "src/diptych", "linking", "total"], textwrap.indent("\n".join(lines), "  "))


if __name__ == "__main__":
    unittest.main()
