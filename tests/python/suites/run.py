"""Runs several suites in one process, which imports torch and its databases once; each of them judges in child processes.

    python tests/python/suites/run.py "op_db --samples 1" "op_variants --samples 1"

Each argument is the command line of a suite. The exit status is 1 if one of them failed; all of them run.
"""
import pathlib
import runpy
import shlex
import sys
import time

HERE = pathlib.Path(__file__).parent


def run(command):
    """The exit status of a suite."""
    name, *arguments = shlex.split(command)
    path = HERE / f"{name}.py"
    if not path.is_file():
        sys.exit(f"run.py: got the suite '{name}', expected one of {', '.join(sorted(file.stem for file in HERE.glob('*_db.py')))} or another file here")
    began, sys.argv = time.monotonic(), [str(path), *arguments]
    print(f"== {command}", flush=True)
    try:
        runpy.run_path(str(path), run_name="__main__")
        status = 0
    except SystemExit as end:
        status = end.code
    print(f"== {command}: {'failed' if status else 'passed'} in {time.monotonic() - began:.1f} s", flush=True)
    return bool(status)


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    failed = [command for command in sys.argv[1:] if run(command)]
    sys.exit(f"failed: {'; '.join(failed)}" if failed else 0)
