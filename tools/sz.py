#!/usr/bin/env python3
"""Counts the lines of each part of the repository against tools/sizes.txt, and names files that are too long.

Lines that are blank or only a comment are not counted, so that nobody saves on comments. A part may grow past its budget
only by a change of tools/sizes.txt that says why. Prints a table; exits 1 if a part or a file is over.
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUDGETS = ROOT / "tools" / "sizes.txt"
LONGEST_FILE = 500  # lines of code; tables get a row of their own in sizes.txt
SUFFIXES = (".h", ".cpp", ".py", ".sh", ".cmake")


def code_lines(text: str, suffix: str) -> int:
    """Counts the lines that hold code."""
    if suffix in (".h", ".cpp"):
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith("//"))
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith("#"))


def read_budgets(text: str) -> dict[str, int]:
    """Reads rows "path lines  # why"; a path ends in / for a folder."""
    budgets = {}
    for number, row in enumerate(text.splitlines(), 1):
        row = row.split("#")[0].split()
        if not row:
            continue
        if len(row) != 2 or not row[1].isdigit():
            raise ValueError(f"sizes.txt:{number}: expected 'path lines', got '{' '.join(row)}'")
        budgets[row[0]] = int(row[1])
    return budgets


def part_of(path: str, budgets: dict[str, int]) -> str | None:
    """Returns the longest folder in the budgets that holds the file."""
    folders = [folder for folder in budgets if folder.endswith("/") and path.startswith(folder)]
    return max(folders, key=len, default=None)


def measure(files: dict[str, int], budgets: dict[str, int]) -> tuple[dict[str, int], list[str]]:
    """Sums `files` (path -> lines) by part; returns the sums and what is over."""
    sums = {folder: 0 for folder in budgets if folder.endswith("/")}
    faults = []
    for path, lines in sorted(files.items()):
        part = part_of(path, budgets)
        if part is None:
            faults.append(f"{path} is in no part of tools/sizes.txt; add its folder")
            continue
        sums[part] += lines
        limit = budgets.get(path, LONGEST_FILE)
        if lines > limit:
            faults.append(f"{path} has {lines} lines of code, more than {limit}; split it, or give it a row in tools/sizes.txt that says why")
    for folder, lines in sums.items():
        if lines > budgets[folder]:
            faults.append(f"{folder} has {lines} lines of code, its budget is {budgets[folder]}; raise it in tools/sizes.txt and say why")
    return sums, faults


def repository_files() -> dict[str, int]:
    patterns = [f"*{suffix}" for suffix in SUFFIXES]
    listed = subprocess.run([ROOT / "tools" / "sources.sh", *patterns], check=True, capture_output=True, text=True)
    paths = listed.stdout.splitlines()
    return {path: code_lines((ROOT / path).read_text(), Path(path).suffix) for path in paths}


def main() -> int:
    budgets = read_budgets(BUDGETS.read_text())
    files = repository_files()
    sums, faults = measure(files, budgets)
    for folder, lines in sums.items():
        print(f"{folder:32}{lines:7} of {budgets[folder]:6}")
    for fault in faults:
        print(f"sz: {fault}")
    print(f"sz: {len(files)} files, {sum(files.values())} lines of code, {len(faults)} faults")
    return 1 if faults or not files else 0


if __name__ == "__main__":
    sys.exit(main())
