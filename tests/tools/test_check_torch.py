"""check_torch.py: what it makes of ctest's report, and how a run in part ends."""
import argparse
import contextlib
import fcntl
import io
import signal
import tempfile
import unittest
import unittest.mock
from pathlib import Path

from load import load

check_torch = load("check_torch")

REPORT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="Linux" tests="4">
  <testcase name="graph_text" time="1" status="run"/>
  <testcase name="fuzz" time="9" status="{fuzz}"/>
  <testcase name="python.models" time="1" status="notrun"/>
  <testcase name="hops_scan" time="1" status="{scan}"/>
</testsuite>
"""


class CheckTorch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def check(self, minutes=None, in_part=False):
        options = argparse.Namespace(version="2.15.0", jobs="2", python="python", minutes=minutes, in_part=in_part)
        with unittest.mock.patch.object(check_torch, "tag_of", lambda python: "py3.11"):
            check = check_torch.Check(options, [])
        check.build_folder = self.folder
        return check

    def judged(self, fuzz, scan, in_part=False):
        """What becomes of a report: the status, and the words."""
        report, words = self.folder / "tests.xml", io.StringIO()
        report.write_text(REPORT.format(fuzz=fuzz, scan=scan))
        with contextlib.redirect_stdout(words):
            status = self.check(in_part=in_part)._judge(report)
        return status, words.getvalue()

    def test_what_was_not_run_is_a_failure_but_for_a_run_in_part(self):
        words = "torch 2.15.0: 2 tests passed, 0 failed, 1 not run\n    not run: hops_scan\n"
        self.assertEqual(self.judged("run", "notrun"), (1, words))
        self.assertEqual(self.judged("run", "notrun", in_part=True), (0, words))

    def test_a_failure_is_one_in_every_run(self):
        words = "torch 2.15.0: 2 tests passed, 1 failed, 0 not run\n    failed: fuzz\n"
        self.assertEqual(self.judged("fail", "run"), (1, words))
        self.assertEqual(self.judged("fail", "run", in_part=True), (1, words))
        self.assertEqual(self.judged("run", "run"), (0, "torch 2.15.0: 3 tests passed, 0 failed, 0 not run\n"))

    def test_what_a_stage_has_started_ends_with_it(self):
        check = self.check(minutes=-5, in_part=True)  # the four minutes after its end are over, too
        lock = self.folder / "lock"
        with unittest.mock.patch.object(check_torch, "MOMENT", 0.5), self.assertRaisesRegex(check_torch.NotReachedError, "tests did not end in time"):
            check._run("tests", ["bash", "-c", f"flock {lock} sleep 600 & wait"])
        with lock.open() as file:
            signal.alarm(20)  # ends this test if the child still holds the lock
            fcntl.flock(file, fcntl.LOCK_EX)
            signal.alarm(0)


if __name__ == "__main__":
    unittest.main()
