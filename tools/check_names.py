#!/usr/bin/env python3
"""Checks that the library defines each class of a namespace in one place.

Two classes of one name are a fault that neither compiler nor linker sees: they take code that both make from a template, such
as std::vector's, for the same. Classes in unnamed namespaces, in other classes and in functions are nobody else's. Run without
arguments from anywhere; prints one line per fault, "file:line: what, and what to do", and exits 1 if there is one.
"""
import collections
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("src", "python/src")
WITHOUT_MEANING = re.compile(r'//[^\n]*|/\*.*?\*/|R"\((?:.*?)\)"|"(?:\\.|[^"\\\n])*"', re.S)
NAMESPACE = re.compile(r"\bnamespace\s*([\w:]*)\s*$")
CLASS = re.compile(r"\b(?:struct|class|union)\s+((?:\w+::)*\w+)\s*(?:final\s*)?(?::[^{;]*)?$")


def classes(source: str) -> list[tuple[str, int]]:
    """Returns the classes that a source defines in named namespaces, by their full names, with the line of each."""
    source = WITHOUT_MEANING.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), source)
    found, scopes, last = [], [], 0  # scopes: the names of namespaces; None for what is not one, or has no name
    for mark in re.finditer(r"[{};]", source):
        head, last = source[last : mark.start()].strip(), mark.end()
        if mark.group() == "{":
            namespace, name = NAMESPACE.search(head), CLASS.search(head)
            if name and all(scopes):
                found.append(("::".join([*scopes, name.group(1)]), source.count("\n", 0, mark.start()) + 1))
            scopes.append(namespace.group(1) if namespace else None)
        elif mark.group() == "}" and scopes:
            scopes.pop()
    return found


def main() -> int:
    places = collections.defaultdict(list)
    for path in sorted(path for folder in SOURCES for path in (ROOT / folder).rglob("*") if path.suffix in (".h", ".cpp")):
        for name, line in classes(path.read_text()):
            places[name].append(f"{path.relative_to(ROOT)}:{line}")
    faults = {name: found for name, found in places.items() if len(found) > 1}
    for name, found in faults.items():
        print(f"{found[1]}: {name} is defined in {found[0]}, too; give one of them another name, or an unnamed namespace")
    print(f"names: {len(places)} classes, {len(faults)} faults")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
