#!/usr/bin/env python3
"""Runs the tests as on other CPUs, and prints one table of what failed on which: `make check-cpus`.

check_cpus.py [--preset ci] [--jobs 2] [--no-build] [--only ROW,...] [what ctest takes, such as -R backends_native]

Eager's kernels, oneDNN's and our own are made for the CPU at hand; variables of the environment have them be those of
another, of which a row is skipped that this machine can't run. Each row takes another tenth of the samples that rotate, as ten
commits do (tools/test.sh); DIPTYCH_TEST_PART=3/10 names one for all rows, "all" takes all. The exit status is 0 only if
nothing failed.
"""
import argparse
import os
import subprocess
import sys
import xml.etree.ElementTree
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
AVX2 = ("avx2", "fma")
AVX512 = (*AVX2, "avx512f", "avx512bw", "avx512dq", "avx512vl")


@dataclass
class Row:
    """A CPU as far as variables of the environment make one, and what this machine has to have for it."""

    name: str
    environment: dict[str, str]
    needs: tuple[str, ...] = ()


@dataclass
class Result:
    row: Row
    skipped: str = ""  # why it was not run
    part: str = ""  # of the samples that rotate
    tests: int = 0
    left_out: list[str] = field(default_factory=list)  # by the tests themselves
    failed: list[str] = field(default_factory=list)


ROWS = (
    Row("onednn-off", {"DIPTYCH_TEST_ONEDNN": "0"}),
    Row("onednn-avx2", {"ONEDNN_MAX_CPU_ISA": "AVX2"}, AVX2),
    Row("aten-avx2", {"ATEN_CPU_CAPABILITY": "avx2"}, AVX2),
    Row("aten-default", {"ATEN_CPU_CAPABILITY": "default"}),
    Row("haswell", {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "DIPTYCH_CPU": "haswell"}, AVX2),
    Row("plain", {"ATEN_CPU_CAPABILITY": "default", "DIPTYCH_CPU": "x86-64-v3"}, AVX2),
    # Of these CPUs code runs that uses what this one has too: AMX is oneDNN's alone.
    Row("skylake", {"DIPTYCH_CPU": "skylake-avx512"}, AVX512),
    Row("sapphirerapids", {"DIPTYCH_CPU": "sapphirerapids"}, AVX512),
    Row("zen4", {"DIPTYCH_CPU": "znver4"}, AVX512),
)


def features_of(cpuinfo: str) -> set[str]:
    """Returns what the kernel says that the first CPU has; nothing where it says no flags, as on Arm."""
    flags = [line.partition(":")[2].split() for line in cpuinfo.splitlines() if line.startswith("flags")]
    return set(flags[0]) if flags else set()


def chosen(words: str) -> list[Row]:
    """Returns the rows whose names have some of these words, separated by commas; all for none. Raises ValueError for a word that is in no name."""
    for word in words.split(","):
        if not any(word in row.name for row in ROWS):
            raise ValueError(f"got the row '{word}', expected some of {', '.join(row.name for row in ROWS)}")
    return [row for row in ROWS if any(word in row.name for word in words.split(","))]


def why_not(row: Row, features: set[str]) -> str:
    """Returns why this machine can't be that CPU; nothing if it can."""
    missing = [name for name in row.needs if name not in features]
    return f"this CPU has no {', '.join(missing)}" if missing else ""


def parts(rows: int, commits: int, named: str | None) -> list[str]:
    """Returns the part of the samples that rotate for each row: another tenth for each, from the commit's on, or the named one."""
    return [named or f"{(commits + index) % 10}/10" for index in range(rows)]


def read_report(row: Row, report: Path, part: str = "") -> Result:
    """Returns what ctest wrote down; without a report ctest itself has failed."""
    if not report.exists():
        return Result(row, part=part, failed=["ctest"])
    result = Result(row, part=part)
    for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
        status, name = case.get("status"), case.get("name", "")
        result.tests += 1
        if status == "notrun":
            result.left_out.append(name)
        elif status != "run":
            result.failed.append(name)
    return result


def environment_of(row: Row, part: str) -> dict[str, str]:
    """Returns the row's environment, to which tools/test_environment.sh adds what every run of the tests has."""
    return {**os.environ, "DIPTYCH_TEST_PART": part, **row.environment}


def run(row: Row, part: str, preset: str, jobs: str, arguments: list[str]) -> Result:
    folder = ROOT / "build" / preset / "cpus"
    folder.mkdir(parents=True, exist_ok=True)
    report, log = folder / f"{row.name}.xml", folder / f"{row.name}.log"
    report.unlink(missing_ok=True)
    command = ["bash", "-c", '. tools/test_environment.sh; exec "$@"', "bash"]
    command += ["ctest", "--preset", preset, "-j", jobs, "--no-tests=error", "--output-junit", str(report), *arguments]
    with log.open("w") as output:
        status = subprocess.run(command, cwd=ROOT, env=environment_of(row, part), stdout=output, stderr=subprocess.STDOUT)
    result = read_report(row, report, part)
    if status.returncode and not result.failed:
        result.failed.append("ctest")
    return result


def table(results: list[Result]) -> str:
    """Returns a line for each row: its tests, how many failed, their names, and what was not run."""
    lines = [f"{'CPU':16}{'part':>6}{'tests':>7}{'failed':>8}  by what"]
    for result in results:
        row = result.row
        how = " ".join(f"{name}={value}" for name, value in row.environment.items())
        if result.skipped:
            lines.append(f"{row.name:16}{'-':>6}{'-':>7}{'-':>8}  {how}: skipped, {result.skipped}")
            continue
        lines.append(f"{row.name:16}{result.part:>6}{result.tests:7}{len(result.failed):8}  {how}")
        lines += [f"{'':16}{'':6}{'':7}{'':8}  {name}" for name in result.failed]
        if result.left_out:
            lines.append(f"{'':16}{'':6}{'':7}{'':8}  not run: {', '.join(result.left_out)}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--preset", default="ci")
    parser.add_argument("--jobs", default="2", help="of the build, and of the tests")
    parser.add_argument("--no-build", action="store_true", help="the build folder is as it should be")
    parser.add_argument("--only", default="", metavar="ROW,...", help=", ".join(row.name for row in ROWS))
    options, arguments = parser.parse_known_args()
    try:
        rows = chosen(options.only)
    except ValueError as error:
        parser.error(str(error))
    if not options.no_build:
        subprocess.run(["tools/build.sh", options.preset, options.jobs, "all"], cwd=ROOT, check=True)
    cpuinfo = Path("/proc/cpuinfo")
    features = features_of(cpuinfo.read_text()) if cpuinfo.exists() else set()
    commits = subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    results = []
    for row, part in zip(rows, parts(len(rows), int(commits or 0), os.environ.get("DIPTYCH_TEST_PART")), strict=True):
        why = why_not(row, features)
        print(f"check-cpus: {row.name}{': skipped, ' + why if why else ', part ' + part}", file=sys.stderr, flush=True)
        results.append(Result(row, skipped=why) if why else run(row, part, options.preset, options.jobs, arguments))
    print(table(results))
    return 1 if any(result.failed for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
