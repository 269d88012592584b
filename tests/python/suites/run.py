"""Runs several suites in one process, which imports torch and its databases once; each of them judges in child processes.

    python tests/python/suites/run.py "op_db --samples 1 + op_variants --samples 1" refusal_db

Each argument is the command line of a suite, or those of several that go through one database together: Note [Samples of operators] in samples.py.
The exit status is 1 if one of them failed; all of them run.
"""
import importlib
import itertools
import pathlib
import runpy
import shlex
import sys
import time

import suite

HERE = pathlib.Path(__file__).parent


def path_of(name):
    path = HERE / f"{name}.py"
    if not path.is_file():
        sys.exit(f"run.py: got the suite '{name}', expected one of {', '.join(sorted(file.stem for file in HERE.glob('*_db.py')))} or another file here")
    return path


def run_one(name, arguments):
    """Whether a suite failed."""
    path = path_of(name)
    sys.argv = [str(path), *arguments]
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as end:
        return bool(end.code)
    return False


def opened(name, *arguments):
    path, module = path_of(name), importlib.import_module(name)
    return suite.Run(str(path), arguments, name, module.__doc__, module.entries, getattr(module, "add_arguments", None))


def run(command):
    """Whether the suites of a command failed."""
    began, words = time.monotonic(), shlex.split(command)
    commands = [list(part) for is_plus, part in itertools.groupby(words, lambda word: word == "+") if not is_plus]
    print(f"== {command}", flush=True)
    failed = suite.carry_out([opened(*command) for command in commands]) if len(commands) > 1 else run_one(words[0], words[1:])
    print(f"== {command}: {'failed' if failed else 'passed'} in {time.monotonic() - began:.1f} s", flush=True)
    return failed


if __name__ == "__main__":
    failed = [command for command in sys.argv[1:] if run(command)]
    sys.exit(f"failed: {'; '.join(failed)}" if failed else 0)
