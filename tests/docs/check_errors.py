#!/usr/bin/env python3
"""Checks that docs/errors.md and the sources agree: every message on the page is one that the sources hold, and every
message of a UserError, of the library's rooms and of the Python package, is on the page.
Usage: check_errors.py PAGE FOLDER...

Messages are written on the page as they stand in the sources, with {} where a value goes, up to the first "; " or
as far as the page quotes them: `[capture] argument '{}' is an undefined tensor`.
"""
import ast
import re
import sys
from pathlib import Path

LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
# Lines of the log, which no one throws.
LOG_LINES = ("[diptych {}] {}", "[backend {}] the interpreter runs node")
# Adjacent literals are one text to the compiler.
ADJACENT = re.compile(r'((?:"(?:[^"\\\n]|\\.)*"\s*)+)')


def texts_of_cpp(source):
    code = re.sub(r"^\s*//.*$", "", source.read_text(), flags=re.M)
    for run in ADJACENT.findall(code):
        text = "".join(LITERAL.findall(run)).replace('\\"', '"')
        yield re.sub(r"\{:[^}]*\}", "{}", text)


def texts_of_python(source):
    nodes = list(ast.walk(ast.parse(source.read_text())))  # in which adjacent strings are one
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.value


READERS = {".cpp": texts_of_cpp, ".h": texts_of_cpp, ".py": texts_of_python}


def messages(folder):
    """{text: file} of the string literals that begin like a message: "[who] ..."."""
    found = {}
    for source in sorted(path for path in folder.rglob("*") if path.suffix in READERS):
        for text in READERS[source.suffix](source):
            if not text.startswith(LOG_LINES) and re.match(r"\[[A-Za-z_.{}][\w.{} ]*\] \S", text):
                found[text] = source.relative_to(folder.parent)
    return found


def main():
    page, *folders = map(Path, sys.argv[1:])
    listed = re.findall(r"^\| `(\[[^`]+)`", page.read_text(), flags=re.M)
    held = {text: file for folder in folders for text, file in messages(folder).items()}
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
