#!/usr/bin/env python3
"""Training runs that go from Python to C++ and back in files: the losses are those of a run that stayed where it was, to the
bit, and files that are wrong are refused. Usage: saved_runs_test.py --cpp PATH_OF_train_saved, under the package's Python."""
import argparse
import contextlib
import importlib.util
import io
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import diptych
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "python"))

from children import in_child  # noqa: E402

PROGRAM = ROOT / "examples/python/train_gpt.py"
PYTHON = [str(PROGRAM)]
SMALL = "--batch 2 --block 16 --layers 2 --width 16 --heads 2".split()
CPP = []


def run_python(arguments, folder):
    """Yields the status of the Python program, what it printed and its words of errors: in a child, which need not import torch again."""
    os.chdir(folder)
    spec = importlib.util.spec_from_file_location("train_gpt", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        spec.loader.exec_module(module)
        status = module.main(arguments)
    yield status, out.getvalue(), err.getvalue()


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="diptych-saved-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def start(self, program, *arguments):
        arguments = [*(SMALL if program is PYTHON and "--load" not in arguments else []), *map(str, arguments)]
        if program is PYTHON:
            [result] = in_child(lambda: run_python(arguments, self.folder))
            return subprocess.CompletedProcess(program, *result)
        return subprocess.run([*program, *arguments], capture_output=True, text=True, cwd=self.folder, timeout=200)

    def losses(self, program, *arguments):
        """The losses as they were printed, with the numbers of their steps: nine digits tell any two floats apart."""
        run = self.start(program, *arguments)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        found = re.findall(r"^step (\d+) loss (\S+)$", run.stdout, flags=re.M)
        return [(int(step), loss) for step, loss in found]

    def files(self):
        return {path.name: path.read_bytes() for path in self.folder.iterdir()}


class Exchange(Case):
    def check_every_way(self, *options):
        self.losses(PYTHON, "--steps", 0, "--save", "start", *options)
        alone = self.losses(PYTHON, "--load", "start", "--steps", 10, "--save", "python")
        self.assertEqual([step for step, _ in alone], list(range(1, 11)))
        self.assertEqual(self.losses(PYTHON, "--steps", 10, *options), alone, "a run that was saved and loaded is another one")
        self.assertEqual(self.losses(CPP, "--load", "start", "--steps", 10, "--save", "cpp"), alone)
        for first, second in ((PYTHON, CPP), (CPP, PYTHON)):
            begun = self.losses(first, "--load", "start", "--steps", 5, "--save", "half")
            self.assertEqual(begun + self.losses(second, "--load", "half", "--steps", 5, "--save", "whole"), alone)
            for name in ("python", "cpp"):
                self.assertEqual(self.tensors("whole"), self.tensors(name))
        self.assertLess(float(alone[-1][1]), float(alone[0][1]))
        return alone

    def test_losses_are_those_of_one_language(self):
        self.check_every_way()

    def test_dropout_draws_on_where_it_was(self):
        drawn = self.check_every_way("--dropout", 0.3)
        self.assertNotEqual(drawn, self.losses(PYTHON, "--steps", 10), "nothing was dropped")

    def tensors(self, name):
        """A file's tensors as bytes: also what no loss shows yet is to be the same."""
        tensors = diptych.load_tensors(str(self.folder / f"{name}.safetensors"))
        return {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}

    def test_a_run_that_cpp_captured_goes_on_in_python(self):
        alone = self.losses(CPP, "--steps", 6)
        begun = self.losses(CPP, "--steps", 3, "--save", "half")
        self.assertEqual(begun + self.losses(PYTHON, "--load", "half", "--steps", 3), alone)

    def test_a_pair_with_a_generator_of_its_own_is_not_saved(self):
        generator = torch.Generator().manual_seed(1)
        pair = diptych.capture(lambda x: (x * torch.rand(4, generator=generator)).sum(), torch.ones(4, requires_grad=True))
        with self.assertRaisesRegex(diptych.UserError, "aten.rand.generator is generator.* capture without it"):
            diptych.save(pair, self.folder / "run", {"step": torch.tensor(1)})
        self.assertEqual(self.files(), {})


class Refusals(Case):
    def setUp(self):
        super().setUp()
        self.losses(PYTHON, "--steps", 1, "--save", "run")
        self.parameters = diptych.load_tensors(str(self.folder / "run.safetensors"))

    def check_refused(self, words, steps=1, save="after"):
        """Both programs refuse the run in these words, end with 2, and leave the folder as it was."""
        before = self.files()
        for program in (PYTHON, CPP):
            with self.subTest(program=program[-1], words=words):
                run = self.start(program, "--load", "run", "--steps", steps, "--save", save)
                self.assertEqual(run.returncode, 2, run.stdout + run.stderr)
                self.assertRegex(run.stderr, words)
                self.assertEqual(run.stdout, "")
                self.assertEqual(self.files(), before)

    def with_parameters(self, change):
        changed = dict(self.parameters)
        change(changed)
        diptych.save_tensors(changed, str(self.folder / "run.safetensors"))

    def test_parameters_that_do_not_fit(self):
        name = "params.blocks.0.mlp_in.weight"
        self.with_parameters(lambda tensors: tensors.pop(name))
        self.check_refused(f"there is no tensor '{name}', expected f32.64,16. for the slot '{name}'")
        self.with_parameters(lambda tensors: tensors.update({name: torch.zeros(64, 15)}))
        self.check_refused(rf"\({name}\) is f32.64,15., expected f32.64,16.")
        self.with_parameters(lambda tensors: tensors.update({name: tensors[name].double()}))
        self.check_refused(rf"\({name}\) is f64.64,16., expected f32.64,16.")
        self.with_parameters(lambda tensors: tensors.update({"params.blocks.7.gain": torch.zeros(1)}))
        self.check_refused("the tensor 'params.blocks.7.gain' does not belong to a slot of the argument 'params'")
        self.with_parameters(lambda tensors: tensors.pop("exp_avg.final_norm.bias"))
        self.check_refused("there is no tensor 'exp_avg.final_norm.bias'")
        self.with_parameters(lambda tensors: tensors.pop("step"))
        self.check_refused("has no tensor 'step'; pass a file of a training run")
        self.with_parameters(lambda tensors: tensors.pop("random_state"))
        self.check_refused("has no tensor 'random_state'; pass a file of a training run")

    def test_a_pair_of_something_else(self):
        x = torch.ones(2, requires_grad=True)
        diptych.save(diptych.capture(lambda x: x.sin().sum(), x), self.folder / "run")
        self.check_refused("the pair has no argument 'params', expected one of x")

    def test_files_that_are_damaged_or_missing(self):
        for name in ("run", "run.safetensors"):
            whole = (self.folder / name).read_bytes()
            for damaged in (whole[: len(whole) // 2], b"", b"PK something else"):
                (self.folder / name).write_bytes(damaged)
                self.check_refused(rf"error: \[load(_tensors)?\] '.*{name}'")
            (self.folder / name).unlink()
            self.check_refused("No such file or directory")
            (self.folder / name).write_bytes(whole)
            altered = bytearray(whole)
            altered[len(altered) // 2] ^= 1
            (self.folder / name).write_bytes(altered)
            self.check_refused("its checksum does not match")
            (self.folder / name).write_bytes(whole)

    def test_a_folder_that_is_not_there(self):
        self.check_refused("No such file or directory", steps=0, save="none/after")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpp", required=True, help="path of train_saved")
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    CPP = [str(Path(arguments.cpp).resolve())]
    torch.set_num_threads(1)  # sums of as many parts in both
    os.environ["OMP_NUM_THREADS"] = "1"
    # Runs that are loaded are run by the interpreter, and are the others' to the last bit if those are, too.
    os.environ["DIPTYCH_BACKEND"] = "interpreter"
    unittest.main(argv=[sys.argv[0], *arguments.cases], verbosity=2)
