#!/usr/bin/env python3
"""Prints which tests changed files can affect, as an expression for ctest -R: affected.py <preset> [<commit>]

Compares the working tree with a commit: HEAD, or the one before it where nothing is changed. A file that no row tells
may affect all tests but those that look at no code of the library. Fails where no test is affected.
"""
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Of tests that need no part of the library, and of those that install it whole, which only `make test` runs.
APART = r"tools\.|docs\.(errors_page|links|tests_that|namespace|umbrella|site)|package\.|python\.package$|errors_compile_fail|tree_compile_fail"
#: (what a path begins with, the names of the tests that it can affect), the first that fits; {1} is the first group.
ROWS = (
    (r"src/diptych/xla/", r"xla|stablehlo|training_|python\.(steps|suites_of_operators)|^fuzz$|^samples"),
    (r"src/diptych/training/", r"training_|python\.(xla|steps)|docs_xla"),
    (r"src/diptych/distributed/|src/launch/", r"^distributed"),
    (r"src/diptych/transforms/", r"transforms|suites_of_(operators|programs)|example"),
    (r"python/.*\.md$|docs/|README\.md|[A-Z]+\.md", r"^docs"),
    (r"python/", r"^python\.(?!package)|examples_saved_runs|docs\.(python|docs_from)"),
    (r"tests/python/suites/", r"python\.suite"),
    (r"tests/python/(\w+)/", r"python\.{1}$"),
    (r"tests/python/", r"^python\.(?!package)"),
    (r"tests/backends/(native|xla)/", r"backends_{1}"),
    (r"tests/samples/", r"^samples|^ops|^backends_native"),
    (r"tests/(testing|main\.cpp|pch)", r"^(?!python|docs\.|tools|package)"),
    (r"tests/(\w+)/", r"^{1}"),
    (r"(examples|tutorial|benchmarks|tools)/", r"^{1}"),
)


def names_affected(path: str) -> str:
    """Returns an expression of Python's for the names of the tests that a file can affect."""
    for begins, names in ROWS:
        if match := re.match(begins, path):
            return names.replace("{1}", match.group(1)) if match.groups() and match.group(1) else names
    return f"^(?!{APART})"


def runs(test: dict, file: str) -> bool:
    """Returns whether a test runs the cases of a source file, by its filter."""
    return any(file in word.removeprefix("--gtest_filter=").split(":") for word in test["command"] if word.startswith("--gtest_filter="))


def affected(tests: list[dict], paths: list[str]) -> list[str]:
    """Returns the names of the tests, as ctest lists them, that changes of files can affect."""
    found = {}
    for path in paths:
        own = [test["name"] for test in tests if path.startswith("tests/") and runs(test, Path(path).name)]
        found |= dict.fromkeys(own or [test["name"] for test in tests if re.search(names_affected(path), test["name"])])
    return list(found)


def git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", "-C", ROOT, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def changed(commit: str | None = None) -> list[str]:
    """Returns the files that differ from a commit, new ones among them."""
    paths = git("diff", "--name-only", commit or "HEAD") + git("ls-files", "--others", "--exclude-standard")
    return paths or ([] if commit else git("diff", "--name-only", "HEAD~1"))


def main() -> int:
    preset, *commit = sys.argv[1:]
    listed = subprocess.run(["ctest", "--preset", preset, "--show-only=json-v1"], cwd=ROOT, check=True, capture_output=True, text=True)
    names = affected(json.loads(listed.stdout)["tests"], changed(*commit))
    print(f"^({'|'.join(map(re.escape, names))})$")
    return 0 if names else 1


if __name__ == "__main__":
    sys.exit(main())
