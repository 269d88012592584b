#!/usr/bin/env python3
"""Checks that docs/errors.md and the library agree: every message on the page is one that the sources hold, and every
UserError message of the rooms is on the page.

Messages are written on the page as they stand in the sources, with {} where a value goes, up to the first "; " or
as far as the page quotes them: `[capture] argument '{}' is an undefined tensor`.
"""
import re
import sys
from pathlib import Path

LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
# Lines of the log, which no one throws.
LOG_LINES = ("[diptych {}] {}", "[backend {}] the interpreter runs node")
# Adjacent literals are one text to the compiler.
ADJACENT = re.compile(r'((?:"(?:[^"\\\n]|\\.)*"\s*)+)')


def messages(folder):
    """{text: file} of the string literals that begin like a message: "[who] ..."."""
    found = {}
    for source in sorted(folder.rglob("*.cpp")) + sorted(folder.rglob("*.h")):
        code = re.sub(r"^\s*//.*$", "", source.read_text(), flags=re.M)
        for run in ADJACENT.findall(code):
            text = "".join(LITERAL.findall(run)).replace('\\"', '"')
            text = re.sub(r"\{:[^}]*\}", "{}", text)
            if not text.startswith(LOG_LINES) and re.match(r"\[[A-Za-z_{}][\w{} ]*\] \S", text):
                found[text] = source.relative_to(folder)
    return found


def main():
    page, folder = Path(sys.argv[1]), Path(sys.argv[2])
    listed = re.findall(r"^\| `(\[[^`]+)`", page.read_text(), flags=re.M)
    held = messages(folder)
    unknown = [text for text in listed if not any(known.startswith(text) for known in held)]
    missing = [f"{file}: {text}" for text, file in held.items() if not any(text.startswith(row) for row in listed)]
    for text in unknown:
        print(f"on the page, but not in the sources: {text}")
    for text in missing:
        print(f"in the sources, but not on the page: {text}")
    if unknown or missing or not listed:
        sys.exit(1)
    print(f"{len(listed)} rows, {len(held)} messages")


if __name__ == "__main__":
    main()
