#!/usr/bin/env python3
"""Checks that the tests which docs/semantics.md and tests/README.md name are there: files and folders, and suites in the
lines that begin with "Tests:"."""
import re
import sys
from pathlib import Path

PAGES = ("docs/semantics.md", "tests/README.md")
FOLDERS = ("", "tests", "tests/semantics", "tests/python", "tests/testing", "src/diptych", "python/src", "python/diptych")


def is_there(root, name):
    """Whether a file or a folder of this name, which may hold a *, is in one of the folders."""
    return any(next(iter((root / folder).glob(name.rstrip("/"))), None) for folder in FOLDERS)


def suites(root):
    """The names of all suites of tests in C++."""
    texts = (path.read_text() for path in (root / "tests").rglob("*.cpp"))
    return {name for text in texts for name in re.findall(r"^TEST(?:_F|_P)?\((\w+),", text, flags=re.M)}


def main():
    root = Path(sys.argv[1]).resolve()
    known, missing, count = suites(root), [], 0
    for page in PAGES:
        for line in (root / page).read_text().splitlines():
            for name in re.findall(r"`([^`]+)`", line):
                is_path = re.fullmatch(r"[\w.*/]+(\.(cpp|h|py|txt)|/)", name)
                is_suite = line.startswith("Tests:") and re.fullmatch(r"[A-Z]\w+", name)
                if not is_path and not is_suite:
                    continue
                count += 1
                if not (is_there(root, name) if is_path else name in known):
                    missing.append(f"{page}: {name}")
    if missing or count == 0:
        sys.exit("no such test:\n" + "\n".join(missing) if missing else "no page names a test")
    print(f"{count} tests that pages name are there")


if __name__ == "__main__":
    main()
