#!/usr/bin/env python3
"""Checks that <diptych/diptych.h> holds what the pages promise: each header that the C++ reference describes, and no other; and,
in some header that it reads, each name that a page writes as dp::name.
Usage: check_headers.py ROOT"""
import re
import sys
from pathlib import Path

FOR_AUTHORS_OF_OPERATORS = "new_hop.md"  # who include headers besides
INCLUDE = re.compile(r'^#include "(diptych/[^"]+)"', re.M)


def reached(source, header, found):
    """{header: text} of a header and all of the library's that it includes."""
    if header not in found:
        found[header] = (source / header).read_text()
        for inner in INCLUDE.findall(found[header]):
            reached(source, inner, found)
    return found


def main():
    root = Path(sys.argv[1])
    umbrella = set(INCLUDE.findall((root / "src/diptych/diptych.h").read_text()))
    described = set(re.findall(r"^### `(diptych/[^`]+\.h)`", (root / "docs/cpp_api.md").read_text(), flags=re.M))
    faults = [f"docs/cpp_api.md describes {header}, which diptych.h does not include" for header in sorted(described - umbrella)]
    faults += [f"diptych.h includes {header}, which docs/cpp_api.md does not describe" for header in sorted(umbrella - described)]
    code = "\n".join(reached(root / "src", "diptych/diptych.h", {}).values())
    words = set(re.findall(r"\w+", re.sub(r"^\s*//.*$", "", code, flags=re.M)))
    pages = [root / "README.md", *sorted((root / "docs").glob("*.md")), *sorted((root / "tutorial").glob("*.cpp"))]
    names = {name: page.name for page in pages if page.name != FOR_AUTHORS_OF_OPERATORS for name in re.findall(r"\bdp::(\w+)", page.read_text())}
    faults += [f"{page} names dp::{name}, which no header of diptych.h declares" for name, page in sorted(names.items()) if name not in words]
    if faults or not described or not names:
        sys.exit("\n".join(faults) or "nothing was found to check")
    print(f"{len(described)} headers, {len(names)} names")


if __name__ == "__main__":
    main()
