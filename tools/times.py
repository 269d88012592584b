#!/usr/bin/env python3
"""Prints what `make test` spent its time on, from what ninja and ctest wrote down.

times.py --stage build=12.5 --stage lint=3 ... --ninja-log build/ci/.ninja_log --since <its size before> --tests build/ci/tests.xml

A stage is measured by the clock. Steps and tests run side by side, so their times add up to more than their stage took.
Whatever is missing, because something failed before it, is left out.
"""
import argparse
import re
import xml.etree.ElementTree
from collections import defaultdict
from pathlib import Path

SHORTEST = 1.0  # seconds; a group that took less has no line of its own
LONG_TEST = 5.0
LONGEST = 20  # how many compile units and tests are listed one by one


def read_steps(log: Path, since: int) -> list[tuple[str, float]]:
    """Returns (output, seconds) of each step that ninja appended after the first `since` bytes; of every step if the
    log was rewritten."""
    if not log.exists():
        return []
    text = log.read_bytes()
    steps = {}
    for line in text[since if since <= len(text) else 0:].decode(errors="replace").splitlines():
        parts = line.split("\t")
        if len(parts) == 5 and parts[0].isdigit() and parts[1].isdigit():
            start, end, _, output, command = parts
            steps.setdefault((start, end, command), (output, (int(end) - int(start)) / 1000))  # a step with several outputs is one
    return list(steps.values())


def group_of_step(output: str) -> str:
    """Returns the folder whose sources a step compiles; all else is linking, listing of tests and the like."""
    if not output.endswith((".o", ".gch", ".pch")):
        return "linking and the rest"
    parts = Path(output).parts
    return "/".join(parts[: 2 if parts[0] in ("src", "tests") and not parts[1].startswith("CMakeFiles") else 1])


def read_tests(report: Path) -> list[tuple[str, float]]:
    """Returns (name, seconds) of each test that ctest ran."""
    if not report.exists():
        return []
    cases = xml.etree.ElementTree.parse(report).getroot().iter("testcase")
    return [(case.get("name", ""), float(case.get("time") or 0)) for case in cases]


def count_cases(report: Path) -> int:
    """Returns how many cases the tests are: of a GoogleTest program or a folder of pytest's as many as it says that it ran, else one a test."""
    if not report.exists():
        return 0
    outputs = [case.findtext("system-out") or "" for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase")]
    said = [re.search(r"\] (\d+) tests? from \d+ test suites? ran|^(\d+) passed.* in [\d.]+s", output, re.M) for output in outputs]
    return sum(int(found.group(1) or found.group(2)) if found else 1 for found in said)


def group_of_test(name: str) -> str:
    """Returns the folder under tests/ that a test is in: compile_aot is in compile."""
    return name.split(".")[0].split("_")[0]


def summed(entries: list[tuple[str, float]], group_of) -> list[tuple[str, float, int]]:
    """Returns (group, seconds, number) of each group, longest first."""
    seconds, numbers = defaultdict(float), defaultdict(int)
    for name, time in entries:
        group = group_of(name)
        seconds[group] += time
        numbers[group] += 1
    return sorted(((group, seconds[group], numbers[group]) for group in seconds), key=lambda row: (-row[1], row[0]))


def row(indent: int, name: str, seconds: float, note: str = "") -> str:
    return f"{'  ' * indent + name:34}{seconds:9.1f}  {note}".rstrip()


def group_rows(entries: list[tuple[str, float]], group_of, unit: str) -> list[str]:
    rows, short = [], []
    for group, seconds, number in summed(entries, group_of):
        if seconds < SHORTEST:
            short.append((group, seconds, number))
            continue
        long = sorted((entry for entry in entries if group_of(entry[0]) == group and entry[1] >= LONG_TEST), key=lambda entry: -entry[1])
        named = [f"{name.removeprefix(group + '.')} {time:.0f}" for name, time in long[:3]] if unit == "tests" else []
        rows.append(row(2, group, seconds, ", ".join([f"{number} {unit}", *named])))
    if short:
        rows.append(row(2, "others", sum(entry[1] for entry in short), f"{sum(entry[2] for entry in short)} {unit}"))
    return rows


def longest_rows(entries: list[tuple[str, float]], what: str) -> list[str]:
    """Returns the heading and the rows of the entries that took longest, one a line."""
    ranked = sorted(entries, key=lambda entry: (-entry[1], entry[0]))[:LONGEST]
    return [f"the {len(ranked)} longest {what}:", *(f"  {seconds:9.1f}  {name}" for name, seconds in ranked)] if ranked else []


def is_compilation(step: tuple[str, float]) -> bool:
    return step[0].endswith((".o", ".gch", ".pch"))


def table(stages: list[tuple[str, float]], steps: list[tuple[str, float]], tests: list[tuple[str, float]], cases: int) -> str:
    """Returns a text with each stage, below it the groups that make it up, and the total."""
    inside = {"build": (steps, group_of_step, "steps"), "tests": (tests, group_of_test, "tests")}
    lines = ["what took how long, in seconds (what runs side by side adds up to more than its stage):"]
    for name, seconds in stages:
        entries, group_of, unit = inside.get(name, ([], None, ""))
        of_cases = f" of {cases} cases" if unit == "tests" else ""
        total = f"{len(entries)} {unit}{of_cases}, {sum(time for _, time in entries):.0f} s of them" if entries else ""
        lines.append(row(1, name, seconds, total))
        lines += group_rows(entries, group_of, unit) if entries else []
    lines.append(row(1, "total", sum(seconds for _, seconds in stages)))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stage", action="append", default=[], metavar="NAME=SECONDS")
    parser.add_argument("--ninja-log", type=Path, required=True)
    parser.add_argument("--since", type=int, default=0, help="how many bytes of the log are of earlier builds")
    parser.add_argument("--tests", type=Path, required=True, help="what ctest --output-junit wrote")
    options = parser.parse_args()
    stages = [(name, float(seconds)) for name, seconds in (stage.split("=") for stage in options.stage)]
    steps, tests = read_steps(options.ninja_log, options.since), read_tests(options.tests)
    longest = longest_rows([step for step in steps if is_compilation(step)], "compile units") + longest_rows(tests, "tests")
    print("\n".join([*longest, table(stages, steps, tests, count_cases(options.tests))]))


if __name__ == "__main__":
    main()
