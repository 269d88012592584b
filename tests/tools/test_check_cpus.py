"""check_cpus.py: which rows this machine can run, what it reads of ctest's report, and the table."""
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import check_cpus  # noqa: E402
from check_cpus import Result, Row  # noqa: E402

REPORT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="Linux" tests="4" failures="1" disabled="0" skipped="1">
  <testcase name="graph_text" time="1" status="run"/>
  <testcase name="backends_native_lower" time="9" status="fail"><failure message=""/></testcase>
  <testcase name="python.models" time="1" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase>
  <testcase name="hops_scan" time="1" status="run"/>
</testsuite>
"""
SOME = Row("some", {"ATEN_CPU_CAPABILITY": "default"})
WIDE = Row("wide", {"DIPTYCH_CPU": "znver4"}, ("avx2", "avx512f"))


class Rows(unittest.TestCase):
    def test_what_a_cpu_has_is_what_the_kernel_says(self):
        self.assertEqual(check_cpus.features_of("model name\t: x\nflags\t\t: sse avx2\nprocessor: 1\nflags\t: other\n"), {"sse", "avx2"})
        self.assertEqual(check_cpus.features_of("Features : asimd\n"), set())

    def test_a_row_says_what_it_lacks(self):
        self.assertEqual(check_cpus.why_not(WIDE, {"avx2", "avx512f"}), "")
        self.assertEqual(check_cpus.why_not(WIDE, {"avx2"}), "this CPU has no avx512f")
        self.assertEqual(check_cpus.why_not(SOME, set()), "")

    def test_rows_are_chosen_by_name(self):
        self.assertEqual(check_cpus.chosen(""), list(check_cpus.ROWS))
        self.assertEqual([row.name for row in check_cpus.chosen("haswell,onednn-off")], ["onednn-off", "haswell"])
        self.assertEqual([row.name for row in check_cpus.chosen("avx2")], ["onednn-avx2", "aten-avx2"])
        with self.assertRaisesRegex(ValueError, "got the row 'z80', expected some of onednn-off"):
            check_cpus.chosen("z80")

    def test_each_row_takes_another_tenth_of_the_samples(self):
        self.assertEqual(check_cpus.parts(3, 128, None), ["8/10", "9/10", "0/10"])
        self.assertEqual(check_cpus.parts(2, 128, "all"), ["all", "all"])

    def test_a_row_names_its_part_and_its_variables(self):
        with unittest.mock.patch.dict("os.environ", {}, clear=True):
            self.assertEqual(check_cpus.environment_of(SOME, "all"), {"DIPTYCH_TEST_PART": "all", "ATEN_CPU_CAPABILITY": "default"})


class Table(unittest.TestCase):
    def read(self, text):
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.xml"
            if text:
                report.write_text(text)
            return check_cpus.read_report(SOME, report, "3/10")

    def test_a_report_tells_failures_from_what_was_not_run(self):
        self.assertEqual(self.read(REPORT), Result(SOME, part="3/10", tests=4, left_out=["python.models"], failed=["backends_native_lower"]))

    def test_no_report_is_a_failure(self):
        self.assertEqual(self.read("").failed, ["ctest"])

    def test_the_table_names_what_failed_and_what_was_not_run(self):
        results = [self.read(REPORT), Result(WIDE, skipped="this CPU has no avx512f"), Result(WIDE, part="4/10", tests=7)]
        self.assertEqual(check_cpus.table(results), """\
CPU               part  tests  failed  by what
some              3/10      4       1  ATEN_CPU_CAPABILITY=default
                                       backends_native_lower
                                       not run: python.models
wide                 -      -       -  DIPTYCH_CPU=znver4: skipped, this CPU has no avx512f
wide              4/10      7       0  DIPTYCH_CPU=znver4""")


if __name__ == "__main__":
    unittest.main()
