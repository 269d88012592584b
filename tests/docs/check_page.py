#!/usr/bin/env python3
"""Checks the marked blocks of a page, or with --update rewrites them.

A fenced block is marked by an HTML comment on the line before it:
  <!-- file: examples/cpp/readme_example.cpp -->     holds what that file holds
  <!-- output: layout_stages joint -->               holds what that program prints
"""
import argparse
import difflib
import re
import subprocess
import sys
from pathlib import Path

BLOCK = re.compile(r"(<!-- (file|output): ([^>]*?) -->\n```[a-z]*\n)(.*?)(```\n)", re.S)


def expected(kind, what, root, programs):
    """What a block of this kind must hold."""
    if kind == "file":
        return (root / what).read_text()
    name, *arguments = what.split()
    if name not in programs:
        sys.exit(f"{name} is not among the programs: {', '.join(sorted(programs))}")
    done = subprocess.run([programs[name], *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{what} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--program", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    programs = dict(pair.split("=", 1) for pair in options.program)
    page = options.page.read_text()
    wrong = []

    def compare(match):
        head, kind, what, got, tail = match.groups()
        want = expected(kind, what, options.root, programs)
        if want != got:
            wrong.append(what)
            sys.stdout.writelines(difflib.unified_diff(got.splitlines(True), want.splitlines(True), f"{options.page}: {what}", "real"))
        return head + want + tail

    updated, count = BLOCK.subn(compare, page)
    if count == 0 or count != len(re.findall(r"^<!-- (?:file|output):", page, re.M)):
        sys.exit(f"{options.page}: a marker without a block behind it, or no marker at all")
    if options.update:
        options.page.write_text(updated)
    elif wrong:
        sys.exit(f"{options.page}: out of date: {', '.join(wrong)}; run this script with --update")
    print(f"{options.page}: {count} blocks are real")


if __name__ == "__main__":
    main()
