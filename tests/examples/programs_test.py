#!/usr/bin/env python3
"""Starts the training programs as a user does: smoke runs, mistakes, signals. Usage: programs_test.py --bin DIR CASE..."""
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
SMALL = {
    "train_gpt": "--steps 5 --batch 2 --block 16 --layers 1 --width 16 --heads 2 --sample 20 --compare-eager 5",
    "train_lstm": "--steps 5 --batch 2 --block 8 --width 8 --sample 20 --compare-eager 5",
    "train_mlp": "--steps 5 --batch 4 --width 8 --compare-eager 5",
    "train_resnet": "--steps 5 --batch 2 --width 4 --compare-eager 5",
    "train_rnn": "--steps 5 --batch 2 --block 8 --width 8 --sample 20 --compare-eager 5",
    "train_deep_gpt": "--steps 5 --batch 2 --block 16 --layers 3 --width 16 --heads 2 --sample 20 --compare-eager 5",
    "train_ssm": "--steps 5 --batch 2 --block 9 --layers 2 --width 8 --states 2 --sample 20 --compare-eager 5",
}


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="diptych-test-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def start(self, program, args, out="out"):
        command = [str(BIN / program), *SMALL[program].split(), "--out", str(self.folder / out), *args.split()]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder)

    def run_program(self, program, args="", out="out"):
        process = self.start(program, args, out)
        stdout, stderr = process.communicate(timeout=200)
        return process.returncode, stdout, stderr

    def checkpoints(self, out="out"):
        return sorted(path.name for path in (self.folder / out).glob("checkpoint-*"))


class Smoke(Case):
    def check_program(self, program, finding, backend):
        code, stdout, stderr = self.run_program(program, f"--backend {backend}")
        self.assertEqual(code, 0, stdout + stderr)
        self.assertIn(finding, stdout)
        self.assertEqual(self.checkpoints(), ["checkpoint-00000005.safetensors"])
        self.assertTrue((self.folder / "out/loss.svg").read_text().startswith("<svg"))
        page = (self.folder / "out/report.html").read_text()
        for part in ("<svg", "Timings", "--lr", finding):
            self.assertIn(part, page)
        if backend != "eager":
            self.assertRegex(stdout, r"5 steps against eager: largest difference of the loss \S+ \(step \d\), allowed 0\.0001")
        return stdout

    def test_every_program_trains(self):
        for program, finding in (("train_gpt", "sampled text"), ("train_lstm", "sampled text"), ("train_ssm", "sampled text"),
                                 ("train_rnn", "sampled text"), ("train_deep_gpt", "sampled text"),
                                 ("train_mlp", "validation accuracy"), ("train_resnet", "validation accuracy")):
            for backend in ("native", "interpreter", "eager"):
                with self.subTest(program=program, backend=backend):
                    self.setUp()
                    self.check_program(program, finding, backend)

    def test_mlp_learns_to_read_digits(self):
        code, stdout, stderr = self.run_program("train_mlp", "--steps 300 --batch 32 --width 64")
        self.assertEqual(code, 0, stderr)
        self.assertGreater(float(re.search(r"validation accuracy: ([\d.]+) %", stdout)[1]), 85)

    def test_ssm_learns_what_letters_follow(self):
        code, stdout, stderr = self.run_program("train_ssm", "--steps 60 --batch 8 --block 32 --width 16 --lr 1e-2")
        self.assertEqual(code, 0, stderr)
        # Guessing evenly gives the logarithm of the vocabulary, 4.3; the letters' frequencies alone give 3.0.
        self.assertLess(float(re.search(r"validation loss: ([\d.]+) nats", stdout)[1]), 2.7)

    def test_a_finished_run_is_not_done_again(self):
        self.run_program("train_mlp")
        code, stdout, stderr = self.run_program("train_mlp")
        self.assertEqual(code, 0, stderr)
        self.assertIn("all 5 steps were done before; --fresh trains anew", stdout)
        code, stdout, stderr = self.run_program("train_mlp", "--fresh")
        self.assertEqual(code, 0, stderr)
        self.assertNotIn("done before", stdout)

    def test_help_names_the_options_and_their_defaults(self):
        code, stdout, _ = self.run_program("train_gpt", "--help")
        self.assertEqual(code, 0)
        for option in ("--steps", "--backend", "--partition", "--data", "--resume", "--fresh", "--sample", "--compare-eager"):
            self.assertIn(option, stdout)
        self.assertIn("memory_budget", stdout)


class Mistakes(Case):
    def check_refused(self, program, args, text, out="out"):
        code, stdout, stderr = self.run_program(program, args, out)
        with self.subTest(program=program, args=args):
            self.assertEqual(code, 2, stdout + stderr)
            self.assertRegex(stderr, text)
            self.assertTrue(stderr.startswith(f"{program}: error: "), stderr)
            self.assertEqual(stderr.count("\n"), 1, "one line: " + stderr)
            self.assertEqual(stdout, "")

    def check_nothing_written(self):
        self.assertFalse((self.folder / "out").exists(), "nothing may be written before a mistake is found")

    def file(self, name, content):
        (self.folder / name).write_bytes(content)
        return self.folder / name

    def test_data_that_cannot_be_used(self):
        empty, tiny = self.file("empty", b""), self.file("tiny", b"In the beginning")
        for program in SMALL:
            self.check_refused(program, "--data /no/such/file", r"no file at '/no/such/file'; give the path of a file with --data")
            self.check_refused(program, f"--data {self.folder}", "is no regular file")
            self.check_refused(program, f"--data {empty}", "is empty; give a file that holds data")
        self.check_refused("train_gpt", f"--data {tiny}", r"holds 16 bytes, which is too short: blocks of 16 need at least 34")
        self.check_refused("train_mlp", f"--data {tiny}", r"line 1, value 1: expected 65")
        self.check_nothing_written()

    def test_values_that_make_no_sense(self):
        for args, text in (("--steps 0", "--steps"), ("--steps few", "--steps"), ("--batch -1", "--batch"), ("--lr nan", "--lr"),
                           ("--lr -1", "--lr"), ("--backend gpu", "--backend.*interpreter"), ("--nonsense 1", "--nonsense"),
                           ("--resume --fresh", "--fresh excludes --resume|--resume"), ("--width 10 --heads 3", "--width 10 is no multiple of --heads 3"),
                           ("--partition best", "best.*min_cut"), ("--partition memory_budget(2)", "memory_budget"),
                           ("--seed -1", "--seed"), ("--checkpoint-every 0", "--checkpoint-every"), ("stray", "stray")):
            self.check_refused("train_gpt", args, text)
        self.check_refused("train_mlp", "--batch 5000", "a batch of 5000 was asked for")
        self.check_nothing_written()

    def test_out_that_cannot_be_written(self):
        taken = self.file("taken", b"x")
        self.check_refused("train_mlp", "", "can't be made", out="taken")
        self.check_refused("train_mlp", "", "can't be made", out="taken/below")
        self.check_refused("train_mlp", f"--report {taken}/report.html", "--report")
        self.check_refused("train_mlp", "", "can't be made", out="/proc/none")
        self.check_nothing_written()

    def test_checkpoints_that_cannot_be_used(self):
        self.check_refused("train_mlp", "--resume", r"--resume: there is no checkpoint in")
        self.run_program("train_mlp")
        self.check_refused("train_mlp", "--width 9 --steps 9", "made with --width 8, and this run has 9")
        checkpoint = self.folder / "out" / self.checkpoints()[0]
        good = checkpoint.read_bytes()
        for damaged in (good[:-1], good[: len(good) // 2], good[:-9] + bytes([good[-9] ^ 1]) + good[-8:], b""):
            checkpoint.write_bytes(damaged)
            self.check_refused("train_mlp", "--steps 9", r"every checkpoint in .* is damaged .*start over with --fresh")
            self.assertEqual(checkpoint.read_bytes(), damaged, "a damaged file is left for the user to see")
        code, stdout, stderr = self.run_program("train_mlp", "--fresh")
        self.assertEqual(code, 0, stdout + stderr)


class Stopping(Case):
    LONG = "--steps 100000 --checkpoint-every 20 --compare-eager 0"

    def wait_for_checkpoint(self, process, than=""):
        end = time.monotonic() + 100
        while time.monotonic() < end:
            found = self.checkpoints()
            if process.poll() is None and found and found[-1] > than:
                return found[-1]
            time.sleep(0.02)
        process.kill()
        self.fail("no checkpoint was written: " + "".join(process.communicate()))

    def test_signals_save_a_checkpoint_and_end_cleanly(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            self.setUp()
            process = self.start("train_mlp", self.LONG)
            self.wait_for_checkpoint(process)
            process.send_signal(number)
            stdout, stderr = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, stderr)
            stopped = int(re.search(r"stopped after step (\d+); checkpoint", stdout)[1])
            self.assertEqual(self.checkpoints()[-1], f"checkpoint-{stopped:08}.safetensors")
            code, stdout, stderr = self.run_program("train_mlp", f"--resume --compare-eager 0 --steps {stopped + 3}")
            self.assertEqual(code, 0, stderr)
            self.assertIn(f"going on from {self.folder}/out/checkpoint-{stopped:08}.safetensors", stderr)

    def test_killed_runs_go_on(self):
        reached = ""
        for _ in range(6):
            process = self.start("train_mlp", self.LONG + " --width 256 --checkpoint-every 1")
            reached = self.wait_for_checkpoint(process, than=reached)
            process.send_signal(signal.SIGKILL)
            _, stderr = process.communicate(timeout=60)
            self.assertEqual(process.returncode, -signal.SIGKILL)
            self.assertNotIn("damaged", stderr)
        self.assertGreaterEqual(int(re.search(r"(\d+)", reached)[1]), 6)

    def test_resumed_run_gives_the_same_parameters(self):
        for program in SMALL:
            with self.subTest(program=program):
                self.setUp()
                self.run_program(program, "--steps 6", out="whole")
                # --steps shapes the learning rate, so the run is stopped by a checkpoint of its own making.
                self.run_program(program, "--steps 6 --checkpoint-every 2", out="parts")
                (self.folder / "parts" / "checkpoint-00000006.safetensors").unlink()
                code, _, stderr = self.run_program(program, "--steps 6 --resume", out="parts")
                self.assertEqual(code, 0, stderr)
                self.assertIn("checkpoint-00000004", stderr)
                files = [(self.folder / out / "checkpoint-00000006.safetensors").read_bytes() for out in ("whole", "parts")]
                self.assertEqual(files[0], files[1])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, required=True, help="folder of the programs")
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    BIN = arguments.bin.resolve()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    unittest.main(argv=[sys.argv[0], *arguments.cases], verbosity=2)
