#!/usr/bin/env python3
"""Prints the targets that tests need: ctest --show-only=json-v1 | test_targets.py <build folder>

A test that runs a program of the build folder needs that program, one of the Python package that, one of the tools
nothing; any other script may need anything. Fails where there is no test."""
import json
import sys
from pathlib import Path


def targets_of(tests: list[dict], build: str) -> list[str]:
    """Returns what to build for tests as ctest lists them; ["all"] where their commands do not tell."""
    found = set()
    for test in tests:
        programs = [Path(word).name for word in test.get("command", []) if word.startswith(f"{build}/bin/")]
        if programs:
            found.update(f"bin/{name}" for name in programs)
        elif test["name"].startswith("python.") and test["name"] != "python.package":
            found.add("diptych_python")
        elif not test["name"].startswith("tools."):
            return ["all"]
    return sorted(found)


def main() -> int:
    tests = json.load(sys.stdin)["tests"]
    print(*targets_of(tests, str(Path(sys.argv[1]).resolve())))
    return 0 if tests else 1


if __name__ == "__main__":
    sys.exit(main())
