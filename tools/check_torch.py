#!/usr/bin/env python3
"""Builds and tests Diptych beside another torch than .venv's, and says what differs: `make check-torch TORCH=2.15.0`.

check_torch.py VERSION [--jobs 2] [--python PYTHON] [--stages STAGE,...] [--minutes M] [--in-part] [what ctest takes, such as -R python.hops]

The environment lies in the user's cache folder, so that a second run installs nothing; the build folder is build/torch-VERSION, for
another Python than .venv's build/torch-VERSION-py3.13. The stages: `install`, `probe` (tools/probe_torch.py), `differences`
(tools/torch_differences.py against .venv's torch), `package` (the Python package alone, for wheels), `build`, `test`.
All run even if one before them fails, but for the tests, which need the build. A skipped test is a failure: what is meant to be run
before a release was not run. With --minutes the tests end by themselves, and what was not reached is named; with --in-part, as
.ci/run has it, no stage goes on for more than four minutes after, and what was not reached is no failure, nor is a torch that can't be
installed, as for want of room.
"""
import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV_PYTHON = ROOT / ".venv" / "bin" / "python"
REQUIREMENTS = ROOT / "tools" / "requirements.txt"
STAGES = ("install", "probe", "differences", "package", "build", "test")
# Not run without the packages of `make check-models`, in any version.
MAY_BE_SKIPPED = {"python.models"}
MOMENT = 1.0  # seconds that a stage gets at least
ROOM = 16e9  # bytes on the disk for an environment with CUDA's libraries, their archives and a build


def cache_folder():
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "diptych" / "torch"


def tag_of(python):
    """Returns "py3.11"."""
    return subprocess.run([python, "-c", "import sys; print('py%d.%d' % sys.version_info[:2])"], capture_output=True, text=True, check=True).stdout.strip()


def say(text):
    print(f"check-torch: {text}", file=sys.stderr, flush=True)


class NotReachedError(Exception):
    """The time of a run in part is over."""


class Check:
    def __init__(self, options, ctest_arguments):
        tag = tag_of(options.python)
        self.version, self.jobs, self.base, self.ctest_arguments = options.version, options.jobs, options.python, ctest_arguments
        self.deadline = time.monotonic() + 60 * options.minutes if options.minutes else None
        self.in_part = options.in_part
        self.environment = cache_folder() / f"{options.version}-{tag}"
        self.python = self.environment / "bin" / "python"
        other_python = "" if tag == tag_of(VENV_PYTHON) else f"-{tag}"
        self.build_folder = ROOT / "build" / f"torch-{options.version}{other_python}"

    def install(self):
        """Makes the environment: torch, and what the tests need beside it as .venv has it."""
        others = [line.partition("#")[0].strip() for line in REQUIREMENTS.read_text().splitlines()]
        wanted = [f"torch=={self.version}", *(line for line in others if line and not line.startswith("torch=="))]
        stamp = self.environment / ".ready"
        if stamp.exists() and stamp.read_text() == "\n".join(wanted):
            return 0
        self.environment.parent.mkdir(parents=True, exist_ok=True)
        if not self.python.exists():
            subprocess.run([self.base, "-m", "venv", self.environment], check=True)
        status = self._run("install", [self.python, "-m", "pip", "--disable-pip-version-check", "install", "--progress-bar", "off", *wanted])
        if status == 0:
            stamp.write_text("\n".join(wanted))
        return status

    def probe(self):
        return subprocess.run([self.python, ROOT / "tools" / "probe_torch.py"], check=False).returncode

    def differences(self):
        """Compares with the torch of .venv, newest last, whichever that is."""
        packages = [self._packages(VENV_PYTHON), self._packages(self.python)]
        tool = [VENV_PYTHON, ROOT / "tools" / "torch_differences.py"]
        return subprocess.run([*tool, *packages, "--looked-at", ROOT / "tools" / "torch_looked_at.txt"], check=False).returncode

    def package(self):
        configure = ["cmake", "--preset", "ci", "-B", self.build_folder, f"-DDIPTYCH_VENV={self.environment}",
                     f"-DCMAKE_RUNTIME_OUTPUT_DIRECTORY={self.build_folder / 'bin'}"]
        build = ["cmake", "--build", self.build_folder, "-j", self.jobs, "--target", "diptych_python"]
        return self._run("configure", configure) or self._run("package", build)

    def build(self):
        return self._run("build", ["cmake", "--build", self.build_folder, "-j", self.jobs])

    def test(self):
        report = self.build_folder / "tests.xml"
        report.unlink(missing_ok=True)
        command = ["ctest", "--test-dir", self.build_folder, "-j", self.jobs, "-LE", "perf", "--output-on-failure", "--no-tests=error",
                   "--output-junit", report, *self.ctest_arguments]
        if self.deadline:
            # Tests that are not begun by then are not run, and stand in the report as such.
            command += ["--stop-time", time.strftime("%H:%M:%S", time.localtime(time.time() + self.deadline - time.monotonic()))]
        status = self._run("tests", command, {"OMP_NUM_THREADS": "1"})
        return self._judge(report) if report.exists() else status or 1

    def _judge(self, report):
        """Prints the tests by what became of them. Returns 1 if one failed, or was skipped without leave."""
        found = {"run": [], "fail": [], "notrun": []}
        for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
            found.setdefault(case.get("status"), []).append(case.get("name"))
        skipped = [name for name in found["notrun"] if name not in MAY_BE_SKIPPED]
        print(f"torch {self.version}: {len(found['run'])} tests passed, {len(found['fail'])} failed, {len(skipped)} not run")
        for what, names in (("failed", found["fail"]), ("not run", skipped)):
            for name in names:
                print(f"    {what}: {name}")
        return 1 if found["fail"] or (skipped and not self.in_part) else 0

    def _run(self, stage, command, environment=None):
        """Runs a command whose words go to a file, and shows their end if it fails."""
        self.build_folder.mkdir(parents=True, exist_ok=True)
        log = self.build_folder / f"{stage}.log"
        # ctest begins no test after the deadline; those that run then may end.
        limit = max(MOMENT, self.deadline + 240 - time.monotonic()) if self.in_part and self.deadline else None
        with log.open("w") as output:
            # A session of its own, so that what ninja and ctest have started ends with them.
            process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})}, start_new_session=True)
            try:
                status = process.wait(limit)
            except BaseException as why:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                if isinstance(why, subprocess.TimeoutExpired):
                    raise NotReachedError(f"{stage} did not end in time") from None
                raise
        if status:
            say(f"{stage} failed; the last words of {log}:\n" + "\n".join(log.read_text(errors="replace").splitlines()[-30:]))
        return status

    @staticmethod
    def _packages(python):
        """Returns the folder that torch is installed into."""
        code = "import importlib.metadata; print(importlib.metadata.distribution('torch').locate_file(''))"
        return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("version", help="of torch, as pip knows it: 2.15.0")
    parser.add_argument("--jobs", default="2", help="of the build, and of the tests")
    parser.add_argument("--python", default=str(VENV_PYTHON), help="the Python to make the environment with")
    parser.add_argument("--stages", default=",".join(STAGES), help="which to run, set apart by commas")
    parser.add_argument("--minutes", type=float, help="when to end the tests, counted from the start of all")
    parser.add_argument("--in-part", action="store_true", help="what is not reached in time is no failure")
    options, ctest_arguments = parser.parse_known_args()
    stages = options.stages.split(",")
    if unknown := set(stages) - set(STAGES):
        parser.error(f"got the stages {', '.join(sorted(unknown))}, expected some of {', '.join(STAGES)}")
    if options.in_part and (free := shutil.disk_usage(ROOT).free) < ROOM:
        print(f"check-torch: torch {options.version} was not tested: {free / 1e9:.0f} GB are free here, and it takes {ROOM / 1e9:.0f}")
        return 0
    check = Check(options, ctest_arguments)
    failed = []
    for stage in stages:
        say(stage)
        try:
            status = getattr(check, stage)()
        except NotReachedError as why:
            print(f"check-torch: torch {options.version}: {why}; what comes after it was not run")
            break
        if status and stage == "install" and options.in_part:
            print(f"check-torch: torch {options.version} could not be installed here, and was not tested")
            break
        if status:
            failed.append(stage)
            if stage in ("install", "package", "build"):
                break
    print(f"check-torch: torch {options.version}: {'failed: ' + ', '.join(failed) if failed else 'nothing failed'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
