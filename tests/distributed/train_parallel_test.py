#!/usr/bin/env python3
"""Trains in two processes, and kills one on the way. Usage: train_parallel_test.py --bin DIR [CASE...]"""
import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

BIN = Path()
SMALL = "--batch 4 --block 16 --layers 1 --width 16 --heads 2 --checkpoint-every 3".split()
# Never reached: whoever is to be killed is running then, however slow the machine is.
ENDLESS = "--steps 100000000"
# No process waits so long for another in a test that passes.
TIMEOUT = "--timeout 250"


def environment_of(pid):
    try:
        pairs = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def process_of_rank(launcher, rank):
    """The child of the launcher that has this rank."""
    for pid in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        if environment_of(pid).get("RANK") == str(rank):
            return int(pid)
    raise AssertionError(f"no process of rank {rank}")


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="diptych-test-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def start(self, launch, args, out="out"):
        command = [BIN / "diptych_launch", *launch.split(), "--", BIN / "train_gpt_parallel", *SMALL]
        command += ["--out", str(self.folder / out), *TIMEOUT.split(), *args.split()]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(lambda: (process.poll() is None and process.kill(), process.wait(), process.stdout.close()))
        return process

    def finish(self, launch, args, out="out"):
        process = self.start(launch, args, out)
        output = process.communicate(timeout=250)[0]
        return process.returncode, output

    def read_until(self, process, pattern):
        """Reads lines until one has the pattern; returns all of them."""
        lines = []
        for line in process.stdout:
            lines.append(line)
            if re.search(pattern, line):
                return "".join(lines)
        self.fail(f"no line had '{pattern}':\n{''.join(lines)}")

    @staticmethod
    def losses(output):
        return {int(step): float(loss) for step, loss in re.findall(r"^step (\d+) loss (\S+)$", output, re.M)}


class Training(Case):
    def test_two_processes_do_the_steps_of_one(self):
        results = []
        for processes in (1, 2):
            code, output = self.finish(f"--processes {processes}", "--steps 8", out=f"out{processes}")
            self.assertEqual(code, 0, output)
            results.append(self.losses(output))
            self.assertEqual(sorted(results[-1]), list(range(1, 9)))
        for step, loss in results[0].items():
            self.assertAlmostEqual(loss, results[1][step], delta=1e-5)

    def test_a_batch_that_does_not_divide_is_refused(self):
        code, output = self.finish("--processes 3", "--steps 1")
        self.assertEqual(code, 2, output)
        self.assertIn("[train_gpt_parallel] --batch 4 does not divide by 3 processes; choose a multiple", output)

    def test_a_checkpoint_of_other_options_is_refused(self):
        self.assertEqual(self.finish("--processes 1", "--steps 1")[0], 0)
        code, output = self.finish("--processes 1", "--steps 2 --width 8")
        self.assertEqual(code, 2, output)
        self.assertIn("give the same, start over with --fresh, or choose another --out", output)
        self.assertEqual(self.finish("--processes 1", "--steps 2 --width 8 --fresh")[0], 0)


class Killing(Case):
    def test_the_other_stops_with_a_clear_error_and_a_rerun_goes_on_as_if_nothing_was(self):
        process = self.start("--processes 2 --grace 250", ENDLESS)
        self.read_until(process, r"^step 7 ")
        os.kill(process_of_rank(process.pid, 1), signal.SIGKILL)
        begin = time.monotonic()
        output = process.communicate(timeout=250)[0]
        print(f"stopped {time.monotonic() - begin:.2f} s after the kill")
        self.assertNotEqual(process.returncode, 0)
        self.assertRegex(output, r"error: \[distributed\] rank 0 of 2: a collective failed \(ALLREDUCE\): .*; another process "
                                 r"probably ended or stopped answering, see its output; restart all of them from the last checkpoint")
        self.assertIn("rank 1 (process", output)
        self.assertIn("was ended by signal 9 (Killed)", output)
        self.assertNotIn("terminate called", output)

        # To five steps behind the checkpoint, and the same without interruption.
        last = max(int(path.stem.split("-")[1]) for path in (self.folder / "out").glob("checkpoint-*.safetensors"))
        self.assertGreaterEqual(last, 6)
        code, resumed = self.finish("--processes 2", f"--steps {last + 5}")
        self.assertEqual(code, 0, resumed)
        self.assertIn(f"checkpoint-{last:08}.safetensors", resumed)
        code, whole = self.finish("--processes 2", f"--steps {last + 5}", out="whole")
        self.assertEqual(code, 0, whole)
        tail = {step: loss for step, loss in self.losses(whole).items() if step > last}
        self.assertEqual(self.losses(resumed), tail)  # to the last digit
        print(f"resumed from step {last}: losses {list(tail.values())}, equal to those of the uninterrupted run")

    def test_the_launcher_starts_all_again(self):
        process = self.start("--processes 2 --grace 250 --max-restarts 1", ENDLESS)
        self.read_until(process, r"^step 7 ")
        os.kill(process_of_rank(process.pid, 0), signal.SIGKILL)
        output = self.read_until(process, r"^going on from .*checkpoint-")
        self.assertIn("diptych_launch: restarting all processes (1 of 1)", output)
        self.read_until(process, r"^step ")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=250)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=Path, required=True)
    known, rest = parser.parse_known_args()
    BIN = known.bin.resolve()
    unittest.main(argv=[sys.argv[0], *rest])
